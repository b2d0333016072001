// Keeps the page up to date: the server tells that something has changed, and the changed parts of
// the page are replaced in place. What the reader is at - scrolling, focus, selection - stays.
"use strict";
(() => {
  const live = document.getElementById("live");
  const away = document.getElementById("away");
  if (!live) return;
  let busy = false;
  let again = false;

  const keyOf = (node) => (node.nodeType === 1 ? node.getAttribute("data-key") : null);

  function patch(old, fresh) {
    if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName) {
      old.replaceWith(fresh);
      return;
    }
    if (old.nodeType !== 1) {
      if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
      return;
    }
    for (const { name } of [...old.attributes]) {
      if (!fresh.hasAttribute(name)) old.removeAttribute(name);
    }
    for (const { name, value } of [...fresh.attributes]) {
      if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    }
    patchChildren(old, fresh);
  }

  // Children with the same key are the same; the others are matched in order. What goes is removed
  // first: a child that is moved would lose the focus.
  function patchChildren(old, fresh) {
    const wanted = new Set([...fresh.children].map(keyOf));
    const keyed = new Map();
    for (const child of [...old.children]) {
      const key = keyOf(child);
      if (key === null) continue;
      if (wanted.has(key)) keyed.set(key, child);
      else child.remove();
    }
    let at = old.firstChild;
    for (const child of [...fresh.childNodes]) {
      const key = keyOf(child);
      let same = key !== null ? keyed.get(key) : at;
      if (key === null) {
        while (same && keyOf(same) !== null) same = same.nextSibling;
      }
      if (!same) {
        old.insertBefore(child, at);
        continue;
      }
      keyed.delete(key);
      while (key !== null && at && keyOf(at) === null) {
        const next = at.nextSibling;
        at.remove();
        at = next;
      }
      if (same !== at) old.insertBefore(same, at);
      at = same.nextSibling;
      patch(same, child);
    }
    while (at) {
      const next = at.nextSibling;
      at.remove();
      at = next;
    }
  }

  async function update() {
    // Nobody sees a hidden tab: it is updated when it is shown.
    if (busy || document.hidden) {
      again = true;
      return;
    }
    busy = true;
    try {
      do {
        again = false;
        const answer = await fetch(live.dataset.here, { headers: { "X-Part": "live" } });
        if (answer.status === 401 || answer.status === 403) {
          location.reload();
          return;
        }
        const fresh = document.createElement("div");
        fresh.append(
          ...new DOMParser().parseFromString(await answer.text(), "text/html").body.childNodes,
        );
        const focused = document.activeElement;
        patchChildren(live, fresh);
        // The order of rows may have changed.
        if (focused && focused.isConnected) focused.focus({ preventScroll: true });
      } while (again);
      away.hidden = true;
    } catch {
      away.hidden = false;
    } finally {
      busy = false;
    }
  }

  document.addEventListener("visibilitychange", () => {
    if (again && !busy) update();
  });

  const events = new EventSource("/events");
  events.addEventListener("changed", update);
  events.addEventListener("open", () => {
    away.hidden = true;
  });
  events.addEventListener("error", () => {
    away.hidden = false;
    // The browser tries again by itself, unless the answer was a refusal.
    if (events.readyState === EventSource.CLOSED) setTimeout(() => location.reload(), 5000);
  });
})();
