// Drives node-redisson: npm install node-redisson ioredis, then
// python -m tests.interop.conformance 'node tests/interop/node-redisson.js'
const readline = require('node:readline');
const { Redisson } = require('node-redisson');
const { TimeUnit } = require('node-redisson/dist/utils/TimeUnit');

let redisson;
const ms = (seconds) => BigInt(Math.round(seconds * 1000));

async function perform({ do: what, kind, name, thread, url, timeout, lease }) {
  if (what === 'connect') {
    const { hostname, port } = new URL(url);
    redisson = new Redisson({ redis: { options: { host: hostname, port: Number(port) } } });
    return redisson.commandExecutor.id;
  }
  if (what === 'sleep') return null;
  if (kind !== 'lock') throw Object.assign(new Error(kind), { name: 'Unsupported' });
  const lock = redisson.getLock(name, owner(thread));
  const leased = lease === undefined || lease === null ? true : ms(lease);
  if (what === 'acquire') {
    const wait = timeout === undefined || timeout === null ? false : ms(timeout);
    return lock.tryLock(wait, leased, TimeUnit.MILLISECONDS);
  }
  if (what === 'release') return lock.unlock();
  if (what === 'force_release') return lock.forceUnlock();
  throw Object.assign(new Error(what), { name: 'Unsupported' });
}

// The second half of a holder id: one word for each thread.
function owner(thread) {
  return thread.replace(/[^\w.]/g, '-');
}

readline.createInterface({ input: process.stdin }).on('line', async (line) => {
  const command = JSON.parse(line);
  const reply = { id: command.id, owner: owner(command.thread) };
  try {
    reply.value = (await perform(command)) ?? null;
  } catch (error) {
    Object.assign(reply, { error: error.name, message: error.message });
  }
  console.log(JSON.stringify(reply));
}).on('close', () => process.exit());
