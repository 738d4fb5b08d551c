// Tests of threads for long work: classes that do not wait for each other, and work whose client has disconnected.
#include <atomic>
#include <catch2/catch.hpp>
#include <condition_variable>
#include <future>
#include <mutex>
#include <set>
#include <thread>

#include "dispatch/offload.h"

using namespace ebbtide;

namespace {

struct Work final : OffloadWork {
  void run() override {
    begun.set_value();
    released.wait();
    done = true;
  }
  [[nodiscard]] bool wanted() const override { return is_wanted; }
  std::promise<void> begun, release;
  std::shared_future<void> released = release.get_future().share();
  std::atomic<bool> is_wanted{true}, done{false};
};

struct Signal final : OffloadWork {
  void run() override { ran.set_value(); }
  std::promise<void> ran;
};

struct Unwanted final : OffloadWork {
  void run() override { std::abort(); }
  [[nodiscard]] bool wanted() const override { return false; }
};

}  // namespace

TEST_CASE("each class of work has threads of its own") {
  ThreadOffload offload(1, 1);
  auto slow = std::make_shared<Work>();
  offload.submit(OffloadClass::kLong, slow);
  slow->begun.get_future().wait();
  for (const OffloadClass kind : {OffloadClass::kShort, OffloadClass::kSync, OffloadClass::kWrite, OffloadClass::kControl,
                                  OffloadClass::kClients, OffloadClass::kCheck, OffloadClass::kLongCheck}) {
    auto quick = std::make_shared<Signal>();
    offload.submit(kind, quick);
    quick->ran.get_future().wait();
  }
  CHECK_FALSE(slow->done);
  slow->release.set_value();
}

TEST_CASE("unwanted work is queued behind slow work: the queue drops most of it") {
  ThreadOffload offload(1, 1);
  auto slow = std::make_shared<Work>();
  offload.submit(OffloadClass::kLong, slow);
  slow->begun.get_future().wait();
  for (int i = 0; i < 100'000; ++i) offload.submit(OffloadClass::kLong, std::make_shared<Unwanted>());
  CHECK(offload.queued(OffloadClass::kLong) < 1'000);
  slow->release.set_value();
}

TEST_CASE("threads are stopped: queued work that is still wanted runs first") {
  auto last = std::make_shared<Signal>();
  auto ran = last->ran.get_future();
  {
    ThreadOffload offload(1, 1);
    auto slow = std::make_shared<Work>();
    offload.submit(OffloadClass::kLong, slow);
    offload.submit(OffloadClass::kLong, last);
    slow->begun.get_future().wait();
    slow->release.set_value();
  }
  CHECK(ran.wait_for(std::chrono::seconds(0)) == std::future_status::ready);
}

TEST_CASE("collect() is called: each idle thread collects freed memory") {
  std::mutex mutex;
  std::condition_variable changed;
  std::set<std::thread::id> threads;  // guarded by mutex
  ThreadOffload offload(2, 1, [&] {
    std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
    changed.notify_all();
  });
  offload.collect();
  std::unique_lock lock(mutex);
  CHECK(changed.wait_for(lock, std::chrono::seconds(20), [&] { return threads.size() == 9; }));
}
