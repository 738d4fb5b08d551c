// A thread that stops after a given number of machine instructions. A test of lock-free code runs one operation in it, stops it
// after each instruction in turn, and meanwhile does the work of another thread. So the test has every interleaving of two
// threads, and the same ones in each run.
//
// The processor traps after each instruction while the trap flag is set. The signal handler counts the traps, and waits at the
// stop. So `body` must not allocate memory, nor take a lock that the test needs while the thread is stopped. For x86-64 only.
#pragma once

#include <pthread.h>
#include <ucontext.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <functional>
#include <mutex>
#include <semaphore>
#include <thread>
#include <utility>

namespace ebbtide {

class SteppedThread {
 public:
  /// The first run() starts `body`.
  explicit SteppedThread(std::function<void()> body) : body_(std::move(body)) {
    static std::once_flag once;
    std::call_once(once, [] {
      struct sigaction action {};
      action.sa_sigaction = on_trap;
      action.sa_flags = SA_SIGINFO;
      ::sigaction(SIGTRAP, &action, nullptr);
    });
    thread_ = std::thread([this] { main(); });
  }
  ~SteppedThread() {
    finish();
    thread_.join();
  }
  SteppedThread(const SteppedThread&) = delete;
  SteppedThread& operator=(const SteppedThread&) = delete;

  /// Runs so many more instructions and stops. Returns false if the body ended before that.
  bool run(std::uint64_t instructions) {
    if (ended_) return false;
    left_ = instructions;
    go_.release();
    stopped_.acquire();
    return !ended_;
  }
  /// Runs to the end of the body.
  void finish() {
    if (ended_) return;
    free_ = true;
    go_.release();
    stopped_.acquire();
  }

 private:
  static constexpr greg_t kTrapFlag = 0x100;

  void main() {
    go_.acquire();
    current_ = this;
    if (!free_) (void)::raise(SIGTRAP);  // each instruction traps after the handler's return
    body_();
    free_ = true;
    current_ = nullptr;
    ended_ = true;
    stopped_.release();
  }
  static void on_trap(int /*signal*/, siginfo_t* /*info*/, void* context) {
    const int error = errno;
    auto& flags = static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_EFL];
    SteppedThread* const self = current_;
    if (self != nullptr && !self->free_ && self->left_-- == 0) {
      self->stopped_.release();
      self->go_.acquire();
      --self->left_;
    }
    const bool stepping = self != nullptr && !self->free_;
    flags = stepping ? flags | kTrapFlag : flags & ~kTrapFlag;
    errno = error;
  }

  static inline thread_local SteppedThread* current_ = nullptr;
  const std::function<void()> body_;
  // go_ and stopped_ decide which thread runs.
  std::uint64_t left_ = 0;
  bool ended_ = false;
  std::atomic<bool> free_{false};
  std::binary_semaphore go_{0}, stopped_{0};
  std::thread thread_;
};

}  // namespace ebbtide
