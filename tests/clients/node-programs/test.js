// Node.js programs on the server: the queue Bull, rate-limiter-flexible, and Redlock.
'use strict';

const assert = require('node:assert/strict');
const Bull = require('bull');
const Redis = require('ioredis');
const Redlock = require('redlock');
const {RateLimiterRedis, RLWrapperBlackAndWhite} = require('rate-limiter-flexible');
const {port, test, until, killServer, run} = require('../runner.js');

const redis = new Redis({port});
redis.on('error', () => {}); // a lost connection is an event; the tests check its consequences
const settings = {lockDuration: 2_000, stalledInterval: 500, maxStalledCount: 5, retryProcessDelay: 100};

/** Kills the server, and waits for the next one. */
async function kill() {
  const before = await redis.info('server');
  const id = (info) => /^process_id:(\d+)/m.exec(info)[1];
  killServer(before);
  await until(async () => id(await redis.info('server').catch(() => before)) !== id(before), 'the server is back');
}

/** Adds a job with this id, again if the server was still starting: Bull does not wait for that. */
async function add(queue, id) {
  for (;;) {
    try {
      return await queue.add({i: id}, {jobId: id});
    } catch (error) {
      if (!error.message.startsWith('LOADING')) throw error;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
}

function queueOf(name) {
  const queue = new Bull(name, {redis: {port}, settings});
  queue.on('error', () => {});
  return queue;
}

test('Bull runs jobs in order of priority, and retries those that fail', async () => {
  const queue = queueOf('order');
  for (let i = 0; i < 20; ++i) await queue.add({i}, {priority: 20 - i, attempts: 3});
  const order = [];
  queue.process(async (job) => {
    order.push(job.data.i);
    if (job.data.i === 7 && job.attemptsMade < 2) throw new Error('not yet');
    return {double: 2 * job.data.i};
  });
  await until(async () => (await queue.getCompletedCount()) === 20, 'all jobs are done');
  assert.deepEqual(order.filter((i) => i !== 7), [...Array(20).keys()].reverse().filter((i) => i !== 7));
  assert.equal(order.filter((i) => i === 7).length, 3);
  const jobs = await queue.getCompleted();
  assert.ok(jobs.every((job) => job.returnvalue.double === 2 * job.data.i));
  await queue.close();
});

test('Bull keeps delayed, repeated, paused and failed jobs apart', async () => {
  const queue = queueOf('kinds');
  await queue.pause();
  await queue.addBulk([...Array(50).keys()].map((i) => ({data: {i}, opts: {removeOnComplete: true}})));
  await queue.add({i: 'late'}, {delay: 300});
  await queue.add({i: 'bad'}, {attempts: 2, backoff: {type: 'fixed', delay: 50}});
  await queue.add({i: 'again'}, {repeat: {every: 200, limit: 2}});
  assert.equal((await queue.getJobCounts()).paused, 51);
  const ran = [];
  queue.process(8, async (job) => {
    ran.push(job.data.i);
    await job.progress(50);
    if (job.data.i === 'bad') throw new Error('never');
  });
  await queue.resume();
  await until(async () => ran.length === 55, '50 jobs, one late, one failing twice, one repeated twice');
  await until(async () => (await queue.getFailedCount()) === 1, 'the failed job is kept');
  const [failed] = await queue.getFailed();
  assert.equal(failed.failedReason, 'never');
  assert.equal(failed.attemptsMade, 2);
  assert.equal(await queue.getCompletedCount(), 3);
  await queue.clean(0, 'completed');
  assert.equal(await queue.getCompletedCount(), 0);
  await queue.obliterate({force: true});
  assert.deepEqual(await redis.keys('bull:kinds:*'), []);
  await queue.close();
});

test('Bull limits the rate of its jobs', async () => {
  const queue = new Bull('slow', {redis: {port}, limiter: {max: 5, duration: 500}});
  const times = [];
  queue.process(async () => times.push(Date.now()));
  for (let i = 0; i < 12; ++i) await queue.add({i});
  await until(async () => times.length === 12, 'all jobs run');
  for (let i = 5; i < 12; ++i) assert.ok(times[i] - times[i - 5] >= 450, `${times[i] - times[i - 5]} ms for 5 jobs`);
  await queue.close();
});

test('Bull loses no job when the server is killed', async () => {
  const queue = queueOf('killed');
  const ran = new Map();
  const active = new Set();
  queue.process(4, async (job) => {
    ran.set(job.data.i, (ran.get(job.data.i) ?? 0) + 1);
    active.add(job.data.i);
    await new Promise((resolve) => setTimeout(resolve, 5));
    active.delete(job.data.i);
    return job.data.i;
  });
  let sent = 0;
  let killed = false;
  const inHand = new Set();
  const producers = [...Array(4).keys()].map(async (producer) => {
    for (let i = 0; i < 150 || !killed; ++i) {
      const name = `${producer}-${i}`;
      await add(queue, name); // waits for the server while it is down
      sent += 1;
      if (i === 75 && producer === 0) {
        for (const job of active) inHand.add(job);
        await kill();
        for (const job of active) inHand.add(job);
        killed = true;
      }
    }
  });
  await Promise.all(producers);
  await until(async () => (await queue.getCompletedCount()) === sent, `${sent} jobs are done`);
  assert.equal(ran.size, sent);
  // Bull runs a job again if its end could not be stored.
  const again = [...ran].filter(([, times]) => times > 1).map(([name]) => name);
  assert.ok(again.length <= 8, `ran twice: ${again}`);
  assert.deepEqual(await queue.getJobCounts(), {active: 0, completed: sent, delayed: 0, failed: 0, paused: 0, waiting: 0});
  await queue.close();
});

test('rate-limiter-flexible counts points, also through a kill of the server', async () => {
  const limiter = new RateLimiterRedis({storeClient: redis, points: 10, duration: 60, keyPrefix: 'points'});
  const left = async (user, points = 1) => (await limiter.consume(user, points).catch((refused) => refused)).remainingPoints;
  assert.deepEqual([await left('a'), await left('a', 4), await left('b')], [9, 5, 9]);
  await kill();
  assert.deepEqual([await left('a', 5), await left('b')], [0, 8]);
  await assert.rejects(limiter.consume('a'), ({msBeforeNext}) => msBeforeNext > 0 && msBeforeNext <= 60_000);
  assert.equal((await limiter.get('b')).consumedPoints, 2);
  await limiter.reward('b', 2);
  await limiter.penalty('b', 1);
  assert.equal((await limiter.get('b')).consumedPoints, 1);
  await limiter.block('b', 30);
  await assert.rejects(limiter.consume('b'));
  assert.equal(await limiter.delete('b'), true);
  const open = new RLWrapperBlackAndWhite({limiter, whiteList: ['a'], runActionAnyway: false});
  await open.consume('a');
  const short = new RateLimiterRedis({storeClient: redis, points: 1, duration: 1, keyPrefix: 'short'});
  await short.consume('a');
  await until(() => short.consume('a').then(() => true, () => false), 'the second is over');
});

test('many consumers at once get no point too many', async () => {
  const clients = [...Array(4)].map(() => new Redis({port}));
  const limiters = clients.map((storeClient) => new RateLimiterRedis({storeClient, points: 100, duration: 60, keyPrefix: 'many'}));
  const outcomes = await Promise.allSettled([...Array(400).keys()].map((i) => limiters[i % 4].consume('x')));
  assert.equal(outcomes.filter(({status}) => status === 'fulfilled').length, 100);
  clients.forEach((client) => client.disconnect());
});

test('Redlock excludes others, also through a kill of the server', async () => {
  const mine = new Redlock([redis], {retryCount: 0});
  const lock = await mine.lock('resource', 30_000);
  await kill();
  await assert.rejects(mine.lock('resource', 1_000), /LockError|Exceeded/);
  const longer = await lock.extend(30_000);
  await assert.rejects(new Redlock([redis], {retryCount: 2, retryDelay: 20}).lock(['free', 'resource'], 1_000));
  await longer.unlock();
  await assert.rejects(longer.unlock());
  const patient = new Redlock([redis], {retryCount: 200, retryDelay: 5});
  let inside = 0;
  const turns = [...Array(40)].map(async () => {
    const turn = await patient.lock('turns', 20_000);
    assert.equal(++inside, 1);
    await redis.ping();
    inside -= 1;
    await turn.unlock();
  });
  await Promise.all(turns);
});

run(async () => {
  await until(async () => (await redis.ping().catch(() => '')) === 'PONG', 'a connection');
  await redis.flushall();
});
