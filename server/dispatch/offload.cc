#include "dispatch/offload.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "resp/block_pool.h"

namespace ebbtide {

namespace {

/// With this nice value, a thread gets about a tenth of a processor that it shares with an event loop. It gets all of an idle
/// one.
constexpr int kNiceOfChecks = 10;
/// With this nice value, a thread gets about a quarter of a processor that it shares with an event loop.
constexpr int kNiceOfControl = 5;

int nice_of(OffloadClass kind) {
  if (kind == OffloadClass::kCheck || kind == OffloadClass::kLongCheck) return kNiceOfChecks;
  return kind == OffloadClass::kControl ? kNiceOfControl : 0;
}

class Disposal final : public OffloadWork {
 public:
  explicit Disposal(std::shared_ptr<const void> garbage) : garbage_(std::move(garbage)) {}
  void run() override { garbage_ = nullptr; }

 private:
  std::shared_ptr<const void> garbage_;
};

}  // namespace

void OffloadDisposer::dispose(std::shared_ptr<const void> garbage) {
  offload_.submit(OffloadClass::kWrite, std::make_shared<Disposal>(std::move(garbage)));
}

ThreadOffload::ThreadOffload(unsigned short_threads, unsigned long_threads, std::function<void()> collect)
    : collect_(std::move(collect)) {
  const unsigned counts[kClasses] = {short_threads, long_threads, 1, long_threads, long_threads, 1, 1, 1, long_threads};
  for (std::size_t kind = 0; kind < kClasses; ++kind) {
    Queue& queue = queues_[kind];
    queue.nice = nice_of(static_cast<OffloadClass>(kind));
    for (unsigned i = 0; i < counts[kind]; ++i) start_thread(queue);
  }
}

void ThreadOffload::start_thread(Queue& queue) {
  try {
    queue.threads.emplace_back([this, &queue] { run(queue); });
  } catch (...) {  // the system cannot create another thread
    stop();
    throw;
  }
}

ThreadOffload::~ThreadOffload() { stop(); }

void ThreadOffload::stop() {
  for (Queue& queue : queues_) {
    {
      std::lock_guard lock(queue.mutex);
      queue.stopping = true;
    }
    queue.changed.notify_all();
  }
  for (Queue& queue : queues_) {
    for (std::thread& thread : queue.threads) thread.join();
  }
}

void ThreadOffload::Queue::push(std::shared_ptr<OffloadWork> piece) {
  const std::uint64_t owner = piece->owner();
  auto& own = work[owner];
  if (own.empty()) turns.push_back(owner);
  own.push_back(std::move(piece));
  ++size;
}

std::shared_ptr<OffloadWork> ThreadOffload::Queue::pop() {
  const std::uint64_t owner = turns.front();
  turns.pop_front();
  const auto own = work.find(owner);
  std::shared_ptr<OffloadWork> piece = std::move(own->second.front());
  own->second.pop_front();
  --size;
  if (own->second.empty()) {
    work.erase(own);
  } else {
    turns.push_back(owner);
  }
  return piece;
}

void ThreadOffload::Queue::prune(std::vector<std::shared_ptr<OffloadWork>>* dropped) {
  for (auto& [owner, own] : work) {
    const auto unwanted = std::stable_partition(own.begin(), own.end(), [](const auto& piece) { return piece->wanted(); });
    std::move(unwanted, own.end(), std::back_inserter(*dropped));
    own.erase(unwanted, own.end());
  }
  size -= dropped->size();
  std::erase_if(turns, [this](std::uint64_t owner) { return work.at(owner).empty(); });
  std::erase_if(work, [](const auto& entry) { return entry.second.empty(); });
}

void ThreadOffload::submit(OffloadClass kind, std::shared_ptr<OffloadWork> work) {
  Queue& queue = queues_[static_cast<std::size_t>(kind)];
  std::vector<std::shared_ptr<OffloadWork>> dropped;  // freed when the lock is released
  {
    std::lock_guard lock(queue.mutex);
    // The queue is pruned only when it has grown, so that pruning costs next to nothing per work item.
    if (queue.size >= queue.prune_at) {
      queue.prune(&dropped);
      queue.prune_at = std::max(kPruneFrom, 2 * queue.size);
    }
    queue.push(std::move(work));
  }
  queue.changed.notify_one();
}

std::size_t ThreadOffload::queued(OffloadClass kind) const {
  const Queue& queue = queues_[static_cast<std::size_t>(kind)];
  std::lock_guard lock(queue.mutex);
  return queue.size;
}

void ThreadOffload::collect() {
  if (!collect_) return;
  for (Queue& queue : queues_) {
    {
      std::lock_guard lock(queue.mutex);
      ++queue.collections;
    }
    queue.changed.notify_all();
  }
}

void ThreadOffload::run(Queue& queue) const {
  // Linux has a nice value for each thread, at first that of the thread that starts it. If it cannot be set, these threads compete with the event
  // loops.
  const auto self = static_cast<id_t>(syscall(SYS_gettid));
  if (queue.nice != 0) setpriority(PRIO_PROCESS, self, getpriority(PRIO_PROCESS, self) + queue.nice);
  std::unique_lock lock(queue.mutex);
  std::uint64_t collected = 0;
  while (true) {
    queue.changed.wait(lock,
                       [&queue, &collected] { return queue.stopping || !queue.work.empty() || queue.collections != collected; });
    if (queue.collections != collected) {
      collected = queue.collections;
      lock.unlock();
      collect_();
      lock.lock();
      continue;
    }
    if (queue.work.empty()) return;
    std::shared_ptr<OffloadWork> work = queue.pop();
    lock.unlock();
    if (work->wanted()) work->run();
    work = nullptr;
    share_blocks();
    lock.lock();
  }
}

}  // namespace ebbtide
