// Keeps the page up to date: asks for it again every two seconds, and replaces what it shows.
// Without this script the page reloads itself.
"use strict";
(() => {
  const live = document.getElementById("live");
  const away = document.getElementById("away");
  const pause = document.getElementById("pause");
  const EVERY = 2000;
  let paused = false;

  // Nobody reads a hidden tab, and a reader who marks text wants to keep it.
  const busy = () => paused || document.hidden || !getSelection().isCollapsed;

  function replace(fresh) {
    const focused = document.activeElement;
    const link = live.contains(focused) && focused.getAttribute("href");
    live.replaceChildren(...fresh.childNodes);
    if (link) {
      const same = [...live.querySelectorAll("a")].find((a) => a.getAttribute("href") === link);
      if (same) same.focus({ preventScroll: true });
    }
  }

  async function update() {
    try {
      const answer = await fetch(location.href, { signal: AbortSignal.timeout(10000) });
      if (!answer.ok) throw new Error(answer.statusText);
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      if (!busy()) replace(page.getElementById("live"));
      away.hidden = true;
    } catch {
      away.hidden = false;
    }
  }

  async function again() {
    if (!busy()) await update();
    setTimeout(again, EVERY);
  }

  pause.hidden = false;
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.setAttribute("aria-pressed", String(paused));
  });
  setTimeout(again, EVERY);
})();
