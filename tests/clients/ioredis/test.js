// Common uses of ioredis with strings and keys.
'use strict';

const assert = require('node:assert/strict');
const Redis = require('ioredis');
const {port, test, until, killServer, run} = require('../runner.js');

const redis = new Redis({port});
redis.on('error', () => {}); // a lost connection is an event; the tests check its consequences

test('it connects, its ready check passes, and INFO parses', async () => {
  assert.equal(redis.status, 'ready');
  assert.match(await redis.info('server'), /^redis_version:7\./m);
  assert.equal(await redis.ping(), 'PONG');
});

test('SET and GET with their options', async () => {
  assert.equal(await redis.set('k', 'v'), 'OK');
  assert.equal(await redis.get('k'), 'v');
  assert.equal(await redis.get('absent'), null);
  assert.equal(await redis.set('k', 'w', 'NX'), null);
  assert.equal(await redis.set('k', 'w', 'EX', 100, 'XX'), 'OK');
  assert.equal(await redis.set('k', 'x', 'KEEPTTL', 'GET'), 'w');
  assert.ok((await redis.ttl('k')) > 90);
  assert.equal(await redis.getdel('k'), 'x');
  assert.equal(await redis.exists('k'), 0);
});

test('values are bytes', async () => {
  const value = Buffer.from([0, 255, 13, 10, 36, 42, 128]);
  await redis.set('bytes', value);
  assert.deepEqual(await redis.getBuffer('bytes'), value);
  const big = Buffer.alloc(5_000_000, 'ab');
  await redis.set('big', big);
  assert.ok(big.equals(await redis.getBuffer('big')));
  assert.equal(await redis.set('ключ', '値 😀'), 'OK');
  assert.equal(await redis.get('ключ'), '値 😀');
});

test('MSET takes an object, a map and a list; MGET gives nulls', async () => {
  await redis.mset({a: '1', b: '2'});
  await redis.mset(new Map([['c', '3']]));
  await redis.mset('d', '4');
  assert.deepEqual(await redis.mget('a', 'b', 'none', ['c', 'd']), ['1', '2', null, '3', '4']);
  assert.equal(await redis.msetnx({a: '9', z: '9'}), 0);
  assert.equal(await redis.del('a', 'b', 'none'), 2);
});

test('a pipeline answers in order, errors in their place', async () => {
  await redis.set('text', 'no number');
  const results = await redis.pipeline().set('n', 5).incr('n').incr('text').incrbyfloat('n', 0.5).get('n').exec();
  assert.deepEqual(results.map(([, value]) => value), ['OK', 6, undefined, '6.5', '6.5']);
  assert.match(results[2][0].message, /^ERR value is not an integer/);
});

test('ten thousand commands in one pipeline', async () => {
  const pipeline = redis.pipeline();
  for (let i = 0; i < 5_000; ++i) pipeline.set(`p${i}`, i).get(`p${i}`);
  const results = await pipeline.exec();
  assert.equal(results.length, 10_000);
  for (let i = 0; i < 5_000; ++i) assert.deepEqual(results[2 * i + 1], [null, String(i)]);
});

test('automatic pipelining', async () => {
  const automatic = new Redis({port, enableAutoPipelining: true});
  const answers = await Promise.all([...Array(1_000).keys()].map((i) => automatic.incrby('auto', i)));
  assert.equal(answers.at(-1), 499_500);
  automatic.disconnect();
});

test('scanStream meets every key once it is done', async () => {
  await redis.mset(Object.fromEntries([...Array(2_000).keys()].map((i) => [`scan:${i}`, 'x'])));
  await redis.set('other', 'x');
  const found = new Set();
  for await (const keys of redis.scanStream({match: 'scan:*', count: 100})) keys.forEach((key) => found.add(key));
  assert.equal(found.size, 2_000);
  assert.ok(!found.has('other'));
});

test('a stream that deletes what it finds', async () => {
  await redis.mset(Object.fromEntries([...Array(500).keys()].map((i) => [`gone:${i}`, 'x'])));
  for await (const keys of redis.scanStream({match: 'gone:*'})) if (keys.length) await redis.unlink(keys);
  assert.deepEqual(await redis.keys('gone:*'), []);
});

test('expiry', async () => {
  await redis.set('short', 'x', 'PX', 30);
  await until(async () => (await redis.get('short')) === null, 'the key has expired');
  assert.equal(await redis.ttl('short'), -2);
  await redis.set('long', 'x');
  assert.equal(await redis.ttl('long'), -1);
  assert.equal(await redis.expire('long', 100), 1);
  assert.equal(await redis.expire('long', 50, 'GT'), 0);
  const at = Math.floor(Date.now() / 1000) + 1000;
  assert.equal(await redis.expireat('long', at), 1);
  assert.equal(await redis.expiretime('long'), at);
  assert.equal(await redis.persist('long'), 1);
  assert.equal(await redis.getex('long', 'EX', 10), 'x');
  assert.ok((await redis.pttl('long')) <= 10_000);
});

test('an error reply rejects, and the connection stays usable', async () => {
  await redis.set('k', 'abc');
  await assert.rejects(redis.incr('k'), {name: 'ReplyError', message: 'ERR value is not an integer or out of range'});
  await assert.rejects(redis.call('NOSUCHCOMMAND', 'a'), /^ReplyError: ERR unknown command 'NOSUCHCOMMAND'/);
  await assert.rejects(redis.call('GET'), /wrong number of arguments for 'get' command/);
  assert.equal(await redis.get('k'), 'abc');
});

test('key prefix, databases and client names', async () => {
  const other = new Redis({port, db: 3, keyPrefix: 'app:', connectionName: 'tester'});
  await other.set('k', 'v');
  assert.equal(await other.get('k'), 'v');
  assert.equal(await other.client('GETNAME'), 'tester');
  assert.equal(await redis.exists('app:k'), 0);
  await redis.select(3);
  assert.equal(await redis.get('app:k'), 'v');
  await redis.select(0);
  other.disconnect();
});

test('commands that only this server has', async () => {
  await redis.mset({'u:1:a': 'x', 'u:1:b': 'x', 'u:2:a': 'x'});
  assert.match(await redis.call('DELPREFIX', 'u:1:'), /^purge-/);
  assert.deepEqual(await redis.keys('u:*'), ['u:2:a']);
});

test('a killed connection comes back by itself', async () => {
  const id = await redis.client('ID');
  const admin = new Redis({port});
  const closed = new Promise((resolve) => redis.once('close', resolve));
  assert.equal(await admin.client('KILL', 'ID', id), 1);
  await closed;
  assert.equal(await redis.set('after', 'kill'), 'OK');
  assert.notEqual(await redis.client('ID'), id);
  admin.disconnect();
});

test('commands wait while the server is killed and started again, and nothing acknowledged is lost', async () => {
  await redis.mset({one: '1', two: '2'});
  const closed = new Promise((resolve) => redis.once('close', resolve));
  killServer(await redis.info('server'));
  await closed;
  const answers = await Promise.all([redis.get('one'), redis.incr('two'), redis.set('three', '3')]);
  assert.deepEqual(answers, ['1', 3, 'OK']);
});

test('quit', async () => {
  const other = new Redis({port});
  assert.equal(await other.quit(), 'OK');
});

run(() => redis.flushall());
