// Redisson's locks, caches, queues and limits, on the server at port EBBTIDE_PORT. Prints each test and `N passed, N failed`.
// Most of them are Lua scripts; caches and queues of delays pack their entries with the library `struct`.

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.Callable;
import java.util.concurrent.Executors;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RMapCache;
import org.redisson.api.RRateLimiter;
import org.redisson.api.RateType;
import org.redisson.api.RedissonClient;
import org.redisson.api.TransactionOptions;
import org.redisson.api.redisnode.RedisNode;
import org.redisson.api.redisnode.RedisNodes;
import org.redisson.client.codec.LongCodec;
import org.redisson.client.codec.StringCodec;
import org.redisson.codec.CompositeCodec;
import org.redisson.config.Config;

public final class ClientTest {
  interface Body {
    void run() throws Exception;
  }

  private static RedissonClient db;
  private static int passed = 0, failed = 0;

  private static void test(String name, Body body) {
    try {
      body.run();
      ++passed;
      System.out.println("ok   " + name);
    } catch (Throwable why) {
      ++failed;
      System.out.println("FAIL " + name + ": " + why);
      why.printStackTrace(System.out);
    }
  }

  private static void equal(Object have, Object want) {
    if (!Objects.deepEquals(have, want)) throw new AssertionError("have " + have + ", want " + want);
  }

  private static void until(Callable<Boolean> condition, String what) throws Exception {
    for (long end = System.nanoTime() + 60_000_000_000L; System.nanoTime() < end; Thread.sleep(20)) {
      if (condition.call()) return;
    }
    throw new AssertionError("not within 60 s: " + what);
  }

  /** Kills the server by SIGKILL, and waits for the next one. */
  private static void killServer() throws Exception {
    String before = processId();
    ProcessHandle.of(Long.parseLong(before)).orElseThrow().destroyForcibly();
    until(() -> {
      try {
        return !processId().equals(before);
      } catch (RuntimeException lost) {
        return false;
      }
    }, "the server is back");
  }

  private static String processId() {
    return db.getRedisNodes(RedisNodes.SINGLE).getInstance().info(RedisNode.InfoSection.SERVER).get("process_id");
  }

  private static void locks() {
    test("a lock excludes other threads, and is re-entrant", () -> {
      int[] inside = {0}, turns = {0};
      var threads = Executors.newFixedThreadPool(4);
      for (int i = 0; i < 4; ++i) {
        threads.submit(() -> {
          for (int k = 0; k < 20; ++k) {
            RLock lock = db.getLock("turn");
            lock.lock();
            lock.lock();
            if (++inside[0] == 1) ++turns[0];
            --inside[0];
            lock.unlock();
            lock.unlock();
          }
        });
      }
      threads.shutdown();
      equal(threads.awaitTermination(60, TimeUnit.SECONDS), true);
      equal(turns[0], 80);
    });
    test("fair, read-write and multiple locks, semaphores and latches", () -> {
      RLock fair = db.getFairLock("fair");
      equal(fair.tryLock(1, 10, TimeUnit.SECONDS), true);
      fair.unlock();
      var both = db.getReadWriteLock("both");
      both.readLock().lock();
      equal(both.writeLock().tryLock(), false);
      both.readLock().unlock();
      equal(both.writeLock().tryLock(), true);
      both.writeLock().unlock();
      RLock all = db.getMultiLock(db.getLock("one"), db.getLock("two"));
      equal(all.tryLock(), true);
      all.unlock();
      var semaphore = db.getPermitExpirableSemaphore("permits");
      semaphore.trySetPermits(1);
      String permit = semaphore.acquire(10, TimeUnit.SECONDS);
      equal(semaphore.tryAcquire(), null);
      semaphore.release(permit);
      var latch = db.getCountDownLatch("latch");
      latch.trySetCount(2);
      latch.countDown();
      latch.countDown();
      equal(latch.await(10, TimeUnit.SECONDS), true);
    });
    test("a lock is held through a kill of the server, and then released", () -> {
      RLock lock = db.getLock("held");
      lock.lock(60, TimeUnit.SECONDS);
      killServer();
      equal(lock.isHeldByCurrentThread(), true);
      var other = Executors.newSingleThreadExecutor();
      equal(other.submit(() -> db.getLock("held").tryLock()).get(), false);
      var waits = other.submit(() -> db.getLock("held").tryLock(30, 60, TimeUnit.SECONDS));
      lock.unlock();
      equal(waits.get(), true);
      other.shutdown();
    });
  }

  private static void data() {
    test("a map with an expiry for each entry", () -> {
      RMapCache<String, Integer> cache = db.getMapCache("cache");
      cache.put("stays", 1);
      cache.put("goes", 2, 300, TimeUnit.MILLISECONDS);
      cache.put("idle", 3, 60, TimeUnit.SECONDS, 30, TimeUnit.SECONDS);
      equal(cache.putIfAbsent("goes", 9), 2);
      RMapCache<String, Long> counts = db.getMapCache("counts", new CompositeCodec(StringCodec.INSTANCE, LongCodec.INSTANCE));
      counts.put("n", 1L, 60, TimeUnit.SECONDS);
      equal(counts.addAndGet("n", 4L), 5L);
      equal(cache.getAll(java.util.Set.of("stays", "idle", "none")), Map.of("stays", 1, "idle", 3));
      until(() -> !cache.containsKey("goes"), "the entry expires");
      equal(cache.fastPut("goes", 4), true);
      killServer();
      equal(cache.readAllMap(), Map.of("stays", 1, "idle", 3, "goes", 4));
      equal(cache.remove("stays"), 1);
      equal(cache.remainTimeToLive("idle") > 0, true);
    });
    test("maps, sets, sorted sets, lists and counters", () -> {
      var map = db.<String, List<Integer>>getMap("map");
      map.put("a", List.of(1, 2));
      equal(map.replace("a", List.of(1, 2), List.of(3)), true);
      equal(map.get("a"), List.of(3));
      var ranks = db.<String>getScoredSortedSet("ranks");
      ranks.add(2.5, "b");
      ranks.add(1, "a");
      equal(ranks.addScore("a", 3), 4.0);
      equal(new ArrayList<>(ranks.readAll()), List.of("b", "a"));
      var list = db.<String>getList("list");
      list.addAll(List.of("x", "y", "z"));
      list.add(1, "new");
      equal(list.readAll(), List.of("x", "new", "y", "z"));
      equal(list.remove(0), "x");
      equal(db.getAtomicLong("n").addAndGet(5), 5L);
      equal(db.getAtomicLong("n").compareAndSet(5, 7), true);
      var set = db.<Integer>getSetCache("set");
      set.add(1, 60, TimeUnit.SECONDS);
      equal(set.contains(1), true);
      var filter = db.<String>getBloomFilter("filter");
      filter.tryInit(1000, 0.01);
      filter.add("in");
      equal(filter.contains("in"), true);
    });
    test("a transaction is committed or rolled back as a whole", () -> {
      var one = db.createTransaction(TransactionOptions.defaults());
      one.getMap("accounts").put("a", 1);
      one.getBucket("bucket").set("x");
      one.commit();
      equal(db.getMap("accounts").get("a"), 1);
      var two = db.createTransaction(TransactionOptions.defaults());
      two.getMap("accounts").put("a", 2);
      two.rollback();
      equal(db.getMap("accounts").get("a"), 1);
    });
  }

  private static void queues() {
    test("a queue loses nothing when the server is killed", () -> {
      var queue = db.<Integer>getBlockingQueue("queue");
      for (int i = 0; i < 200; ++i) queue.add(i);
      for (int i = 0; i < 100; ++i) equal(queue.poll(), i);
      killServer();
      for (int i = 100; i < 200; ++i) equal(queue.poll(10, TimeUnit.SECONDS), i);
      equal(queue.poll(), null);
      var later = Executors.newSingleThreadExecutor();
      var taken = later.submit(() -> queue.poll(30, TimeUnit.SECONDS));
      queue.add(7);
      equal(taken.get(), 7);
      later.shutdown();
    });
    test("a queue of delays hands each element over at its time", () -> {
      var ready = db.<String>getBlockingQueue("ready");
      var delayed = db.getDelayedQueue(ready);
      delayed.offer("second", 600, TimeUnit.MILLISECONDS);
      delayed.offer("first", 200, TimeUnit.MILLISECONDS);
      equal(delayed.size(), 2);
      equal(ready.poll(30, TimeUnit.SECONDS), "first");
      equal(ready.poll(30, TimeUnit.SECONDS), "second");
      delayed.destroy();
    });
    test("messages of a topic", () -> {
      var messages = new LinkedBlockingQueue<String>();
      var topic = db.getTopic("news");
      topic.addListener(String.class, (channel, text) -> messages.add(text));
      equal(topic.publish("hello"), 1L);
      equal(messages.poll(10, TimeUnit.SECONDS), "hello");
      killServer();
      until(() -> topic.publish("again") == 1, "the listener has subscribed again");
      equal(messages.poll(10, TimeUnit.SECONDS), "again");
    });
    test("a rate limit counts through a kill of the server", () -> {
      RRateLimiter limiter = db.getRateLimiter("limit");
      limiter.trySetRate(RateType.OVERALL, 5, Duration.ofMinutes(10));
      equal(limiter.tryAcquire(3), true);
      killServer();
      equal(limiter.availablePermits(), 2L);
      equal(limiter.tryAcquire(2), true);
      equal(limiter.tryAcquire(), false);
    });
  }

  public static void main(String[] arguments) {
    Config config = new Config();
    config.useSingleServer().setAddress("redis://127.0.0.1:" + System.getenv("EBBTIDE_PORT")).setRetryAttempts(20)
        .setConnectionMinimumIdleSize(2).setConnectionPoolSize(16);
    db = Redisson.create(config);
    locks();
    data();
    queues();
    db.shutdown();
    System.out.println(passed + " passed, " + failed + " failed");
    System.exit(failed == 0 ? 0 : 1);
  }
}
