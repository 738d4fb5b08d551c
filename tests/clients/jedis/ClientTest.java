// Common uses of Jedis with strings and keys, on the server at port EBBTIDE_PORT. Prints each test and `N passed, N failed`.

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisPool;
import redis.clients.jedis.JedisPubSub;
import redis.clients.jedis.Pipeline;
import redis.clients.jedis.Protocol;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.Response;
import redis.clients.jedis.Transaction;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.params.ScanParams;
import redis.clients.jedis.params.SetParams;
import redis.clients.jedis.resps.ScanResult;

public final class ClientTest {
  interface Body {
    void run() throws Exception;
  }

  private static final HostAndPort SERVER = new HostAndPort("127.0.0.1", Integer.parseInt(System.getenv("EBBTIDE_PORT")));
  private static int passed = 0, failed = 0;

  private static void test(String name, Body body) {
    try {
      body.run();
      ++passed;
      System.out.println("ok   " + name);
    } catch (Throwable why) {
      ++failed;
      System.out.println("FAIL " + name + ": " + why);
    }
  }

  private static void equal(Object have, Object want) {
    if (!Objects.deepEquals(have, want)) throw new AssertionError("have " + have + ", want " + want);
  }

  private static void suite(RedisProtocol protocol) {
    var config = DefaultJedisClientConfig.builder().protocol(protocol).clientName("tester").build();
    String in = protocol + ": ";
    test(in + "SET and GET with their options", () -> {
      try (Jedis db = new Jedis(SERVER, config)) {
        db.flushAll();
        equal(db.set("k", "v"), "OK");
        equal(db.get("k"), "v");
        equal(db.get("absent"), null);
        equal(db.set("k", "w", SetParams.setParams().nx()), null);
        equal(db.set("k", "w", SetParams.setParams().xx().ex(100)), "OK");
        equal(db.setGet("k", "x", SetParams.setParams().keepttl()), "w");
        equal(db.ttl("k") > 90, true);
        equal(db.getDel("k"), "x");
        equal(db.exists("k"), false);
        equal(db.clientGetname(), "tester");
      }
    });
    test(in + "values are bytes", () -> {
      try (Jedis db = new Jedis(SERVER, config)) {
        byte[] key = {0, 1, -1}, value = {0, -1, 13, 10, 36, 42, -128};
        db.set(key, value);
        equal(db.get(key), value);
      }
    });
    test(in + "counters, ranges, bits and sketches", () -> {
      try (Jedis db = new Jedis(SERVER, config)) {
        equal(db.incrBy("n", 40), 40L);
        equal(db.incrByFloat("n", 2.5), 42.5);
        equal(db.append("s", "hello"), 5L);
        equal(db.getrange("s", 1, -2), "ell");
        equal(db.setbit("b", 7, true), false);
        equal(db.bitcount("b"), 1L);
        equal(db.bitfield("f", "INCRBY", "u8", "0", "3"), List.of(3L));
        equal(db.pfadd("h", "a", "b"), 1L);
        equal(db.pfcount("h"), 2L);
      }
    });
    test(in + "a pipeline of ten thousand, errors in their place", () -> {
      try (Jedis db = new Jedis(SERVER, config)) {
        Pipeline pipeline = db.pipelined();
        for (int i = 0; i < 10_000; ++i) pipeline.set("p" + i, Integer.toString(i));
        equal(pipeline.syncAndReturnAll().size(), 10_000);
        db.set("text", "no number");
        pipeline = db.pipelined();
        Response<Long> wrong = pipeline.incr("text");
        Response<String> right = pipeline.get("p17");
        pipeline.sync();
        equal(right.get(), "17");
        try {
          wrong.get();
          throw new AssertionError("no error");
        } catch (JedisDataException why) {
          equal(why.getMessage(), "ERR value is not an integer or out of range");
        }
      }
    });
    test(in + "transactions that watch", () -> {
      try (Jedis db = new Jedis(SERVER, config); Jedis other = new Jedis(SERVER, config)) {
        db.set("watched", "1");
        db.watch("watched");
        other.set("watched", "2");
        Transaction transaction = db.multi();
        transaction.set("watched", "3");
        equal(transaction.exec(), null);
        db.watch("watched");
        transaction = db.multi();
        transaction.incr("watched");
        transaction.get("watched");
        equal(transaction.exec(), List.of(3L, "3"));
      }
    });
    test(in + "a scan meets every key", () -> {
      try (Jedis db = new Jedis(SERVER, config)) {
        Set<String> seen = new HashSet<>();
        String cursor = ScanParams.SCAN_POINTER_START;
        do {
          ScanResult<String> page = db.scan(cursor, new ScanParams().match("p*").count(500));
          seen.addAll(page.getResult());
          cursor = page.getCursor();
        } while (!cursor.equals(ScanParams.SCAN_POINTER_START));
        equal(seen.size(), 10_000);
      }
    });
    test(in + "publish and subscribe", () -> {
      try (Jedis db = new Jedis(SERVER, config); Jedis listener = new Jedis(SERVER, config)) {
        var messages = new LinkedBlockingQueue<String>();
        var ready = new CountDownLatch(1);
        var hearer = new JedisPubSub() {
          @Override public void onPSubscribe(String pattern, int count) {
            ready.countDown();
          }
          @Override public void onPMessage(String pattern, String channel, String message) {
            messages.add(pattern + " " + channel + " " + message);
          }
        };
        Thread thread = new Thread(() -> listener.psubscribe(hearer, "news.*"));
        thread.start();
        equal(ready.await(20, TimeUnit.SECONDS), true);
        equal(db.publish("news.java", "hello"), 1L);
        equal(messages.poll(20, TimeUnit.SECONDS), "news.* news.java hello");
        hearer.punsubscribe();
        thread.join(20_000);
      }
    });
    test(in + "the server describes itself", () -> {
      try (Jedis db = new Jedis(SERVER, config)) {
        equal(db.info("server").contains("redis_version:7."), true);
        equal(db.configGet("maxmemory-policy").toString(), "{maxmemory-policy=noeviction}");
        equal(db.clientList().contains("lib-name=jedis"), true);
        equal(db.commandGetKeys("MSET", "a", "1", "b", "2"), List.of("a", "b"));
        equal(db.commandDocs("get").get("get").getGroup(), "string");
      }
    });
    test(in + "commands that only this server has", () -> {
      try (Jedis db = new Jedis(SERVER, config)) {
        db.mset("u:1:a", "x", "u:1:b", "x", "u:2:a", "x");
        Object ticket = db.sendCommand(() -> "DELPREFIX".getBytes(), "u:1:");
        equal(new String((byte[]) ticket).startsWith("purge-"), true);
        equal(db.keys("u:*"), Set.of("u:2:a"));
      }
    });
  }

  public static void main(String[] arguments) {
    for (RedisProtocol protocol : new RedisProtocol[] {RedisProtocol.RESP2, RedisProtocol.RESP3}) suite(protocol);
    test("a pool under sixteen threads", () -> {
      try (JedisPool pool = new JedisPool(SERVER.getHost(), SERVER.getPort())) {
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < 16; ++i) {
          threads.add(new Thread(() -> {
            for (int j = 0; j < 200; ++j) {
              try (Jedis db = pool.getResource()) {
                db.incr("pooled");
              }
            }
          }));
        }
        for (Thread thread : threads) thread.start();
        for (Thread thread : threads) thread.join();
        try (Jedis db = pool.getResource()) {
          equal(db.get("pooled"), "3200");
        }
      }
    });
    test("client-side caching: an invalidation reaches the connection that was named", () -> {
      try (Jedis reader = new Jedis(SERVER); Jedis writer = new Jedis(SERVER); Jedis listener = new Jedis(SERVER)) {
        var messages = new LinkedBlockingQueue<String>();
        var ready = new CountDownLatch(1);
        var hearer = new JedisPubSub() {
          @Override public void onSubscribe(String channel, int count) {
            ready.countDown();
          }
          @Override public void onMessage(String channel, String message) {
            messages.add(message);
          }
        };
        long id = listener.clientId();
        Thread thread = new Thread(() -> listener.subscribe(hearer, "__redis__:invalidate"));
        thread.start();
        equal(ready.await(20, TimeUnit.SECONDS), true);
        Object ok = reader.sendCommand(Protocol.Command.CLIENT, "TRACKING", "ON", "REDIRECT", Long.toString(id));
        equal(new String((byte[]) ok), "OK");
        writer.set("cached", "1");
        equal(reader.get("cached"), "1");
        writer.set("cached", "2");
        equal(messages.poll(20, TimeUnit.SECONDS), "cached");
        hearer.unsubscribe();
        thread.join(20_000);
      }
    });
    System.out.printf("%d passed, %d failed%n", passed, failed);
    System.exit(failed > 0 ? 1 : 0);
  }
}
