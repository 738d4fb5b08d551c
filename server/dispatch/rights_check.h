// A check of rights off the loop: its command has many keys, or long ones that are compared with many patterns.
//
// The command's loop and the thread share this object. It belongs to the thread from submit() until `done` is set, except for
// client_gone and input. Meanwhile the command has not begun, and later commands of its client wait for it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include <engine/status.h>

#include "acl/users.h"
#include "dispatch/offload.h"
#include "dispatch/table.h"
#include "resp/args.h"
#include "resp/client.h"

namespace ebbtide {

struct RightsCheck final : OffloadWork {
  /// A check that needs more steps (AclBudget) than this moves to kLongCheck: so many steps take about a quarter of a second.
  static constexpr std::uint64_t kShortSteps = 64 << 20;

  const Command* command = nullptr;
  Args args;
  std::shared_ptr<const User> user;
  ClientLoop* loop = nullptr;
  std::uint64_t client_id = 0;
  std::uint64_t user_id = 0;                    ///< a hash of the user's name
  OffloadClass threads = OffloadClass::kCheck;  ///< the class of the thread that runs the check
  /// Owns the memory that `args` point into once the client has disconnected. The loop sets it then.
  std::shared_ptr<const void> input;
  std::atomic<bool> client_gone{false};  ///< set by the loop: no client needs the result

  // --- results
  Status status;                      ///< not OK: an argument is too long to be a key
  std::optional<AclVerdict> verdict;  ///< nullopt: the check needs more than kShortSteps
  std::atomic<bool> done{false};

  void run() override;
  [[nodiscard]] bool wanted() const override { return !client_gone.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t owner() const override { return user_id; }
};

}  // namespace ebbtide
