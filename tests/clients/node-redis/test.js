// Common uses of node-redis with strings and keys, in RESP2 and RESP3.
'use strict';

const assert = require('node:assert/strict');
const {createClient, RESP_TYPES} = require('redis');
const {port, test, until, killServer, run} = require('../runner.js');

const clients = {};
async function connect(options = {}) {
  const client = createClient({socket: {port}, ...options});
  client.on('error', () => {}); // a lost connection is an event; the tests check its consequences
  return client.connect();
}

for (const protocol of [2, 3]) {
  const on = (name, body) => test(`RESP${protocol}: ${name}`, () => body(clients[protocol]));

  on('HELLO, name and library are known to the server', async (redis) => {
    const own = await redis.clientInfo();
    assert.equal(own.resp, protocol);
    assert.equal(own.name, 'tester');
    assert.match(await redis.sendCommand(['CLIENT', 'INFO']), / lib-name=node-redis /);
    assert.equal(await redis.ping(), 'PONG');
  });

  on('SET and GET with their options', async (redis) => {
    assert.equal(await redis.set('k', 'v'), 'OK');
    assert.equal(await redis.get('k'), 'v');
    assert.equal(await redis.get('absent'), null);
    assert.equal(await redis.set('k', 'w', {condition: 'NX'}), null);
    assert.equal(await redis.set('k', 'w', {expiration: {type: 'EX', value: 100}, condition: 'XX'}), 'OK');
    assert.equal(await redis.set('k', 'x', {expiration: 'KEEPTTL', GET: true}), 'w');
    assert.ok((await redis.ttl('k')) > 90);
    assert.equal(await redis.getDel('k'), 'x');
    assert.equal(await redis.exists('k'), 0);
  });

  on('values are bytes', async (redis) => {
    const value = Buffer.from([0, 255, 13, 10, 36, 42, 128]);
    await redis.set('bytes', value);
    const binary = redis.withTypeMapping({[RESP_TYPES.BLOB_STRING]: Buffer});
    assert.deepEqual(await binary.get('bytes'), value);
    const big = Buffer.alloc(5_000_000, 'ab');
    await redis.set('big', big);
    assert.ok(big.equals(await binary.get('big')));
  });

  on('MSET and MGET', async (redis) => {
    await redis.mSet({a: '1', b: '2'});
    await redis.mSet([['c', '3'], ['d', '4']]);
    assert.deepEqual(await redis.mGet(['a', 'b', 'none', 'c', 'd']), ['1', '2', null, '3', '4']);
    assert.equal(await redis.mSetNX({a: '9', z: '9'}), 0);
    assert.equal(await redis.del(['a', 'b', 'none']), 2);
  });

  on('commands of one tick go out as one pipeline', async (redis) => {
    const answers = await Promise.all([...Array(5_000).keys()].map((i) => redis.incrBy('n', i)));
    assert.equal(answers.at(-1), 12_497_500);
    assert.deepEqual(await redis.multi().set('p', 5).incr('p').get('p').execAsPipeline(), ['OK', 6, '6']);
  });

  on('scanIterator meets every key', async (redis) => {
    await redis.mSet(Object.fromEntries([...Array(2_000).keys()].map((i) => [`scan:${i}`, 'x'])));
    const found = new Set();
    for await (const keys of redis.scanIterator({MATCH: 'scan:*', COUNT: 100})) keys.forEach((key) => found.add(key));
    assert.equal(found.size, 2_000);
  });

  on('expiry', async (redis) => {
    await redis.set('short', 'x', {expiration: {type: 'PX', value: 30}});
    await until(async () => (await redis.get('short')) === null, 'the key has expired');
    assert.equal(await redis.ttl('short'), -2);
    await redis.set('long', 'x');
    assert.equal(await redis.expire('long', 100), 1);
    assert.equal(await redis.expire('long', 50, 'GT'), 0);
    const at = Math.floor(Date.now() / 1000) + 1000;
    assert.equal(await redis.expireAt('long', at), 1);
    assert.equal(await redis.expireTime('long'), at);
    assert.equal(await redis.persist('long'), 1);
    assert.equal(await redis.getEx('long', {type: 'EX', value: 10}), 'x');
  });

  on('numbers and maps have their types', async (redis) => {
    assert.equal(await redis.incrByFloat('f', 1.5), '1.5');
    assert.deepEqual({...(await redis.configGet('maxclients'))}, {maxclients: '10000'});
    const docs = await redis.sendCommand(['COMMAND', 'COUNT']);
    assert.ok(docs > 50);
  });

  on('an error reply rejects, and the connection stays usable', async (redis) => {
    await redis.set('k', 'abc');
    await assert.rejects(redis.incr('k'), {message: 'ERR value is not an integer or out of range'});
    await assert.rejects(redis.sendCommand(['NOSUCHCOMMAND', 'a']), /ERR unknown command 'NOSUCHCOMMAND'/);
    await assert.rejects(redis.sendCommand(['GET']), /wrong number of arguments for 'get' command/);
    assert.equal(await redis.get('k'), 'abc');
  });

  on('databases and client names', async () => {
    const other = await connect({RESP: protocol, database: 3, name: 'other'});
    await other.set('only-there', 'v');
    assert.equal(await other.clientGetName(), 'other');
    assert.equal(await clients[protocol].exists('only-there'), 0);
    await other.close();
  });

  on('a killed connection comes back by itself', async (redis) => {
    const id = await redis.clientId();
    const admin = await connect();
    const lost = new Promise((resolve) => redis.once('reconnecting', resolve));
    assert.equal(await admin.sendCommand(['CLIENT', 'KILL', 'ID', String(id)]), 1);
    await lost;
    assert.equal(await redis.set('after', 'kill'), 'OK');
    assert.notEqual(await redis.clientId(), id);
    await admin.close();
  });

  on('commands wait while the server is killed and started again, and nothing acknowledged is lost', async (redis) => {
    await redis.mSet({one: '1', two: '2'});
    const lost = new Promise((resolve) => redis.once('reconnecting', resolve));
    killServer(await redis.info('server'));
    await lost;
    // The client sends as soon as it is connected, perhaps while the server is still opening its database.
    await until(() => redis.ping().catch((error) => /^LOADING /.test(error.message) ? false : Promise.reject(error)), 'it is loaded');
    const answers = await Promise.all([redis.get('one'), redis.incr('two'), redis.set('three', '3')]);
    assert.deepEqual(answers, ['1', 3, 'OK']);
  });
}

(async () => {
  for (const protocol of [2, 3]) clients[protocol] = await connect({RESP: protocol, name: 'tester'});
  await run(() => clients[2].flushAll());
})();
