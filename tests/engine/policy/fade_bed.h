// A tree as text, and the proposals of one strategy for one of its files.
#pragma once

#include <catch2/catch.hpp>

#include <memory>
#include <optional>
#include <string>

#include "policy/fade_strategy.h"
#include "policy/registry.h"
#include "tree/frozen.h"
#include "tree/text.h"

namespace ebbtide::testing {

/// The tree's settings beside its shape.
struct FadeSettings {
  std::string policy = "leveling";  ///< goes file by file; "tiering" does not
  Millis now = 1001;
  std::uint64_t arriving = 0;  ///< bytes that arrive within a deadline; 0: unknown
  bool room_is_short = false;
};

class FadeBed {
 public:
  using Settings = FadeSettings;

  /// `runs`: the lines of the tree's runs. Memtable and target file have 1 MiB.
  explicit FadeBed(const std::string& runs, const Settings& settings = {})
      : shape_(parse_shape("tree memtable=1M file=1M\n" + runs).value()),
        policy_(make_policy({settings.policy, {}}).value()),
        due_(with_arriving(settings.arriving), *policy_, settings.now, 0),
        query_{shape_, due_, policy_->by_file(), settings.room_is_short} {
    leave_out_frozen(&shape_);
    REQUIRE(check(shape_).empty());
  }
  FadeBed(const FadeBed&) = delete;
  FadeBed& operator=(const FadeBed&) = delete;

  /// Returns the slice for a file, as text; " busy" is added if it needs busy files.
  [[nodiscard]] std::string slice(FileNum file) const { return text_of(propose_slice(query_, expired(file))); }
  /// Returns the step down for a file, as text; "none" if a slice is needed.
  [[nodiscard]] std::string step(FileNum file) const {
    const std::optional<Proposal> proposal = propose_step_down(query_, expired(file));
    return proposal ? text_of(*proposal) : "none";
  }
  /// Returns the bytes of the inputs of the slice for a file.
  [[nodiscard]] std::uint64_t bytes_of_slice(FileNum file) const { return propose_slice(query_, expired(file)).reserved.bytes; }

 private:
  [[nodiscard]] const TreeShape& with_arriving(std::uint64_t bytes) {
    shape_.deadline_bytes = bytes;
    return shape_;
  }
  [[nodiscard]] ExpiredFile expired(FileNum num) const {
    for (std::size_t run = 0; run < shape_.runs.size(); ++run) {
      for (const FileShape& file : shape_.runs[run].files) {
        if (file.num == num) return {run, &file, false};
      }
    }
    FAIL("there is no file " << num);
    return {};
  }
  static std::string text_of(const Proposal& proposal) {
    const std::string text = to_text(proposal.plan);
    return text.substr(0, text.find(" (")) + (proposal.reserved.busy ? " busy" : "");
  }

  TreeShape shape_;
  const std::shared_ptr<const Policy> policy_;
  const DueTimes due_;
  const FadeQuery query_;
};

}  // namespace ebbtide::testing
