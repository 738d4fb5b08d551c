// Runs tests one after the other; the last line that it prints is `N passed, N failed`.
//
// run.py starts the server, gives its port in EBBTIDE_PORT, and restarts it whenever it ends.
'use strict';

const SECONDS = 60; // no test takes a tenth of it
const port = Number(process.env.EBBTIDE_PORT);
const tests = [];

/** Adds a test; `body` is async and throws if something is wrong. */
function test(name, body) {
  tests.push({name, body});
}

/** Repeats the check until it returns true; for what the server does in the background. */
async function until(condition, what) {
  for (const end = Date.now() + 30_000; Date.now() < end; ) {
    if (await condition()) return;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  throw new Error(`not within 30 s: ${what}`);
}

/** Kills the server with this INFO by SIGKILL. */
function killServer(info) {
  process.kill(Number(/^process_id:(\d+)/m.exec(info)[1]), 'SIGKILL');
}

/** Runs all tests, and `before` ahead of each. */
async function run(before) {
  let failed = 0;
  for (const {name, body} of tests) {
    let timer;
    const late = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error(`not within ${SECONDS} s`)), SECONDS * 1000);
    });
    try {
      await Promise.race([before().then(body), late]);
      console.log(`ok      ${name}`);
    } catch (error) {
      failed += 1;
      console.log(`FAILED  ${name}\n${error.stack ?? error}`.replace(/\n/g, '\n        '));
    } finally {
      clearTimeout(timer);
    }
  }
  console.log(`${tests.length - failed} passed, ${failed} failed`);
  process.exit(failed ? 1 : 0);
}

module.exports = {port, test, until, killServer, run};
