// Tests of threads for long work: classes that do not wait for each other, and work whose client has disconnected.
#include <catch2/catch.hpp>

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <future>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "dispatch/offload.h"

namespace TEST_FILE {

using namespace ebbtide;

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

TEST_CASE("thread of one class of work is busy: work of every other class runs, on threads of its own") {
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

TEST_CASE("100,000 cancelled jobs are queued behind a slow job: the queue drops most of them") {
  ThreadOffload offload(1, 1);
  auto slow = std::make_shared<Work>();
  offload.submit(OffloadClass::kLong, slow);
  slow->begun.get_future().wait();
  for (int i = 0; i < 100'000; ++i) offload.submit(OffloadClass::kLong, std::make_shared<Unwanted>());
  CHECK(offload.queued(OffloadClass::kLong) < 1'000);
  slow->release.set_value();
}

TEST_CASE("one owner has queued much work: the first work of another owner runs next") {
  struct Owned final : OffloadWork {
    Owned(std::uint64_t owner, std::vector<std::uint64_t>* order, std::mutex* mutex)
        : owner_(owner), order_(order), mutex_(mutex) {}
    void run() override {
      std::lock_guard lock(*mutex_);
      order_->push_back(owner_);
    }
    [[nodiscard]] std::uint64_t owner() const override { return owner_; }
    std::uint64_t owner_;
    std::vector<std::uint64_t>* order_;
    std::mutex* mutex_;
  };
  std::mutex mutex;
  std::vector<std::uint64_t> order;
  {
    ThreadOffload offload(1, 1);
    auto slow = std::make_shared<Work>();
    offload.submit(OffloadClass::kCheck, slow);
    slow->begun.get_future().wait();
    for (int i = 0; i < 3; ++i) offload.submit(OffloadClass::kCheck, std::make_shared<Owned>(1, &order, &mutex));
    // Unwanted work is dropped; that of one owner fills the queue until it is pruned.
    for (int i = 0; i < 100; ++i) offload.submit(OffloadClass::kCheck, std::make_shared<Unwanted>());
    for (int i = 0; i < 2; ++i) offload.submit(OffloadClass::kCheck, std::make_shared<Owned>(2, &order, &mutex));
    CHECK(offload.queued(OffloadClass::kCheck) < 100);
    slow->release.set_value();
  }
  CHECK(order == std::vector<std::uint64_t>{1, 2, 1, 2, 1});
}

TEST_CASE("work needs much processor time: its threads have a lower priority than the event loops") {
  struct Priority final : OffloadWork {
    void run() override { nice.set_value(::getpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid)))); }
    std::promise<int> nice;
  };
  ThreadOffload offload(1, 1);
  const auto nice_of = [&](OffloadClass kind) {
    auto work = std::make_shared<Priority>();
    offload.submit(kind, work);
    return work->nice.get_future().get();
  };
  const int loops = ::getpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid)));
  CHECK(nice_of(OffloadClass::kClients) == loops);
  CHECK(nice_of(OffloadClass::kControl) > loops);
  CHECK(nice_of(OffloadClass::kCheck) > nice_of(OffloadClass::kControl));
  CHECK(nice_of(OffloadClass::kLongCheck) > nice_of(OffloadClass::kControl));
}

TEST_CASE("offload threads are stopped: queued work that is still wanted runs first") {
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

TEST_CASE("offload threads are idle: collect() makes each of them return freed memory to the system") {
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
  CHECK(changed.wait_for(lock, std::chrono::seconds(20), [&] { return threads.size() == 10; }));
}

}  // namespace TEST_FILE
