#include "tree/text.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

#include "base/quote.h"

namespace ebbtide {
namespace {

constexpr std::uint64_t kUnits[] = {std::uint64_t{1} << 30, std::uint64_t{1} << 20, std::uint64_t{1} << 10};
constexpr char kUnitNames[] = {'G', 'M', 'K'};

bool plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == ':' ||
         c == '/';
}
bool digit(char c) { return c >= '0' && c <= '9'; }
bool letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

int hex_value(char c) {
  if (digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

std::string span_text(const char* name, std::uint64_t lo, std::uint64_t hi) {
  return std::string(" ") + name + "=" + std::to_string(lo) + ".." + std::to_string(hi);
}

std::string inputs_text(const std::vector<PlanInput>& inputs) {
  std::string out;
  for (const PlanInput& input : inputs) {
    out += " r" + std::to_string(input.run) + "{";
    for (std::size_t i = 0; i < input.files.size(); ++i) out += (i == 0 ? "" : " ") + std::to_string(input.files[i]);
    out += "}";
  }
  return out;
}

std::string pages_text(const std::vector<PageSet>& sets) {
  std::string out;
  for (const PageSet& set : sets) {
    out += " r" + std::to_string(set.run) + "{" + std::to_string(set.file) + (set.renew_names ? " names:" : ":");
    for (const std::uint32_t page : set.whole) out += " " + std::to_string(page);
    out += " |";
    for (const std::uint32_t page : set.parts) out += " " + std::to_string(page);
    out += "}";
  }
  return out;
}

std::string target_text(const PlanTarget& target) {
  return " -> " + (target.run == 0 ? std::string("new") : "r" + std::to_string(target.run)) + " L" + std::to_string(target.level);
}

/// Reads text from left to right and stores the first error. After an error every read fails.
class Scanner {
 public:
  explicit Scanner(Bytes text) : text_(text) {}

  bool ok() const { return error_.empty(); }
  const std::string& error() const { return error_; }
  bool at_end() {
    skip_spaces();
    return at_ == text_.size();
  }
  bool fail(const std::string& wanted) {
    if (ok()) error_ = "at \"" + std::string(text_.substr(at_, 20)) + "\": expected " + wanted;
    return false;
  }
  /// If `word` comes next, skips it and returns true.
  bool take(Bytes word) {
    skip_spaces();
    if (!ok() || text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }
  /// Like take(), but does not skip blanks first.
  bool take_close(Bytes word) { return at_ < text_.size() && text_[at_] != ' ' && take(word); }
  bool need(Bytes word) { return take(word) || fail("\"" + std::string(word) + "\""); }

  bool number(std::uint64_t* out) {
    skip_spaces();
    const char* begin = text_.data() + at_;
    const auto [end, status] = std::from_chars(begin, text_.data() + text_.size(), *out);
    if (!ok() || status != std::errc() || end == begin) return fail("a number");
    at_ += static_cast<std::size_t>(end - begin);
    return true;
  }
  bool level(int* out) {
    std::uint64_t wide = 0;
    if (!need("L") || !number(&wide)) return false;
    if (wide > 1000) return fail("a level up to 1000");
    *out = static_cast<int>(wide);
    return true;
  }
  bool run(RunId* out) { return need("r") && number(out); }
  bool bytes(std::uint64_t* out) {
    if (!number(out)) return false;
    for (std::size_t i = 0; i < std::size(kUnits); ++i) {
      if (take_close(Bytes(&kUnitNames[i], 1))) {
        if (*out > std::numeric_limits<std::uint64_t>::max() / kUnits[i]) return fail("a smaller number of bytes");
        *out *= kUnits[i];
        return true;
      }
    }
    return true;
  }
  bool span(std::uint64_t* lo, std::uint64_t* hi) { return number(lo) && need("..") && number(hi); }
  std::string word() {
    skip_spaces();
    const std::size_t begin = at_;
    while (at_ < text_.size() && letter(text_[at_])) ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }
  bool key(std::string* out) {
    skip_spaces();
    out->clear();
    if (take_close("\"")) return quoted(out);
    while (at_ < text_.size() && plain(text_[at_])) out->push_back(text_[at_++]);
    return !out->empty() || fail("a key");
  }
  bool next_is_digit() {
    skip_spaces();
    return at_ < text_.size() && digit(text_[at_]);
  }

 private:
  void skip_spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\r')) ++at_;
  }
  bool quoted(std::string* out) {
    while (at_ < text_.size() && text_[at_] != '"') {
      if (text_[at_] != '\\') {
        out->push_back(text_[at_++]);
      } else if (at_ + 1 < text_.size() && (text_[at_ + 1] == '"' || text_[at_ + 1] == '\\')) {
        out->push_back(text_[at_ + 1]);
        at_ += 2;
      } else if (at_ + 3 < text_.size() && text_[at_ + 1] == 'x' && hex_value(text_[at_ + 2]) >= 0 &&
                 hex_value(text_[at_ + 3]) >= 0) {
        out->push_back(static_cast<char>(hex_value(text_[at_ + 2]) * 16 + hex_value(text_[at_ + 3])));
        at_ += 4;
      } else {
        return fail("\\\", \\\\ or \\xNN");
      }
    }
    if (at_ == text_.size()) return fail("a closing quote");
    ++at_;
    return true;
  }

  Bytes text_;
  std::size_t at_ = 0;
  std::string error_;
};

bool parse_largest(Scanner* in, FileShape* file) {
  if (in->take("*")) {
    file->unbounded = true;
    return true;
  }
  file->largest_exclusive = in->take("<");
  return in->key(&file->largest);
}

bool parse_count(Scanner* in, FileShape* file) {
  std::uint64_t n = 0;
  if (!in->number(&n)) return false;
  const std::string unit = in->word();
  if (unit == "e")
    file->entries = n;
  else if (unit == "t")
    file->tombstones = n;
  else if (unit == "rt")
    file->range_tombstones = n;
  else if (unit == "b")
    file->invalidated = n;
  else if (unit == "d")
    file->dead = n;
  else
    return in->fail("e, t, rt, b or d after a count");
  return true;
}

bool parse_attribute(Scanner* in, FileShape* file) {
  if (in->next_is_digit()) return parse_count(in, file);
  const std::string name = in->word();
  if (name == "busy") {
    file->busy = true;
    return true;
  }
  if (name == "quarantined") {
    file->quarantined = true;
    return true;
  }
  if (!in->need("=")) return false;
  if (name == "born") return in->number(&file->oldest_birth);
  if (name == "deadline") return in->number(&file->deadline);
  if (name == "seq") return in->span(&file->min_seq, &file->max_seq);
  if (name == "D") return in->span(&file->min_delete_key, &file->max_delete_key);
  if (name == "expiry") return in->span(&file->min_expiry, &file->max_expiry);
  return in->fail("busy, quarantined, born, deadline, seq, D or expiry");
}

bool parse_file(Scanner* in, FileShape* file) {
  if (!in->number(&file->num) || !in->need("[") || !in->key(&file->smallest) || !in->need("..") || !parse_largest(in, file) ||
      !in->bytes(&file->bytes)) {
    return false;
  }
  while (!in->take("]")) {
    if (in->at_end()) return in->fail("\"]\"");
    if (!parse_attribute(in, file)) return false;
  }
  return true;
}

bool parse_tree_line(Scanner* in, TreeShape* shape) {
  while (!in->at_end()) {
    const std::string name = in->word();
    if (!in->need("=")) return false;
    std::uint64_t levels = 0;
    bool good = false;
    if (name == "memtable")
      good = in->bytes(&shape->memtable_bytes);
    else if (name == "file")
      good = in->bytes(&shape->file_bytes);
    else if (name == "flushes")
      good = in->number(&shape->flushes);
    else if (name == "levels")
      good = in->number(&levels) && (levels <= 1000 || in->fail("up to 1000 levels"));
    else
      return in->fail("memtable, file, flushes or levels before this");
    if (!good) return false;
    if (name == "levels") shape->levels = static_cast<int>(levels);
  }
  return true;
}

bool parse_line(Scanner* in, TreeShape* shape) {
  if (in->take("tree")) return parse_tree_line(in, shape);
  if (in->take("cursor")) {
    int level = 0;
    std::string key;
    if (!in->level(&level) || !in->key(&key)) return false;
    if (shape->cursors.size() <= static_cast<std::size_t>(level)) shape->cursors.resize(static_cast<std::size_t>(level) + 1);
    shape->cursors[static_cast<std::size_t>(level)] = std::move(key);
    return in->at_end() || in->fail("the end of the line");
  }
  RunShape run;
  if (!in->level(&run.level) || !in->run(&run.id) || !in->need(":")) return false;
  while (!in->at_end()) {
    if (!parse_file(in, &run.files.emplace_back())) return false;
  }
  shape->runs.push_back(std::move(run));
  return true;
}

bool parse_inputs(Scanner* in, std::vector<PlanInput>* inputs) {
  while (in->take("r")) {
    PlanInput& input = inputs->emplace_back();
    if (!in->number(&input.run) || !in->need("{")) return false;
    while (!in->take("}")) {
      if (in->at_end()) return in->fail("\"}\"");
      if (!in->number(&input.files.emplace_back())) return false;
    }
  }
  return !inputs->empty() || in->fail("a run with its files, r1{2 3}");
}

bool parse_page_numbers(Scanner* in, const char* until, std::vector<std::uint32_t>* pages) {
  while (!in->take(until)) {
    std::uint64_t page = 0;
    if (in->at_end()) return in->fail("more pages");
    if (!in->number(&page)) return false;
    if (page > 0xffffffffu) return in->fail("a page's number before this");
    pages->push_back(static_cast<std::uint32_t>(page));
  }
  return true;
}

bool parse_pages(Scanner* in, std::vector<PageSet>* sets) {
  while (in->take("r")) {
    PageSet& set = sets->emplace_back();
    if (!in->number(&set.run) || !in->need("{") || !in->number(&set.file)) return false;
    set.renew_names = in->take("names");
    if (!in->need(":")) return false;
    if (!parse_page_numbers(in, "|", &set.whole) || !parse_page_numbers(in, "}", &set.parts)) return false;
  }
  return !sets->empty() || in->fail("a file with its pages, r1{2: 3 4 | 5}");
}

bool parse_target(Scanner* in, PlanTarget* target) {
  if (!in->need("->")) return false;
  if (!in->take("new") && !in->run(&target->run)) return false;
  return in->level(&target->level);
}

bool parse_range(Scanner* in, KeyRange* range) {
  return in->key(&range->start) && in->need("..") && (in->take("*") || in->key(&range->end));
}

bool parse_reason(Scanner* in, Plan* plan) {
  if (!in->need("(")) return false;
  const std::string name = in->word();
  bool known = false;
  for (int i = 0; i <= static_cast<int>(Reason::kDropped); ++i) {
    if (name == reason_name(static_cast<Reason>(i))) {
      plan->reason = static_cast<Reason>(i);
      known = true;
    }
  }
  if (!known) return in->fail("a reason before this");
  if (in->take(",")) {
    if (!in->need("urgent")) return false;
    plan->urgent = true;
  }
  return in->need(")") && (in->at_end() || in->fail("the end of the plan"));
}

bool parse_move(Scanner* in, Plan* plan) {
  std::vector<PlanInput> inputs;
  Move move;
  if (!parse_inputs(in, &inputs)) return false;
  if (inputs.size() != 1) return in->fail("one run only");
  move.from = inputs[0].run;
  move.files = std::move(inputs[0].files);
  if (!parse_target(in, &move.target)) return false;
  plan->action = std::move(move);
  return true;
}

bool parse_action(Scanner* in, const std::string& verb, Plan* plan) {
  std::vector<PlanInput> inputs;
  PlanTarget target;
  KeyRange range;
  if (verb == "move") return parse_move(in, plan);
  if (verb == "merge") {
    if (!parse_inputs(in, &inputs) || !parse_target(in, &target)) return false;
    plan->action = Merge{std::move(inputs), target};
  } else if (verb == "slice") {
    if (!parse_inputs(in, &inputs) || !parse_range(in, &range) || !parse_target(in, &target)) return false;
    plan->action = Slice{std::move(inputs), std::move(range), target};
  } else if (verb == "rewrite") {
    if (!parse_inputs(in, &inputs)) return false;
    if (inputs.size() != 1 || inputs[0].files.size() != 1) return in->fail("one file only");
    Rewrite rewrite{inputs[0].run, inputs[0].files[0]};
    if (in->take("into") && !in->bytes(&rewrite.file_bytes)) return false;
    plan->action = rewrite;
  } else if (verb == "drop") {
    Drop drop;
    const bool pages_only = in->take("pages");
    if (!pages_only && !parse_inputs(in, &drop.inputs)) return false;
    if ((pages_only || in->take("pages")) && !parse_pages(in, &drop.pages)) return false;
    plan->action = std::move(drop);
  } else {
    return in->fail("merge, slice, move, rewrite, drop or none before this");
  }
  return true;
}

}  // namespace

std::string key_to_text(Bytes key) {
  return !key.empty() && std::all_of(key.begin(), key.end(), plain) ? std::string(key) : quote(key, "\\x");
}

std::string bytes_to_text(std::uint64_t bytes) {
  for (std::size_t i = 0; i < std::size(kUnits); ++i) {
    if (bytes != 0 && bytes % kUnits[i] == 0) return std::to_string(bytes / kUnits[i]) + kUnitNames[i];
  }
  return std::to_string(bytes);
}

std::string to_text(const FileShape& file) {
  std::string out = std::to_string(file.num) + "[" + key_to_text(file.smallest) + "..";
  out += file.unbounded ? "*" : (file.largest_exclusive ? "<" : "") + key_to_text(file.largest);
  out += " " + bytes_to_text(file.bytes);
  const auto count = [&](std::uint64_t n, const char* unit) {
    if (n != 0) out += " " + std::to_string(n) + unit;
  };
  count(file.entries, "e");
  count(file.tombstones, "t");
  count(file.range_tombstones, "rt");
  count(file.invalidated, "b");
  count(file.dead, "d");
  if (file.oldest_birth != 0) out += " born=" + std::to_string(file.oldest_birth);
  if (file.deadline != 0) out += " deadline=" + std::to_string(file.deadline);
  if (file.min_seq != 0 || file.max_seq != 0) out += span_text("seq", file.min_seq, file.max_seq);
  if (file.min_delete_key != kNoStamp || file.max_delete_key != 0)
    out += span_text("D", file.min_delete_key, file.max_delete_key);
  if (file.min_expiry != 0 || file.max_expiry != 0) out += span_text("expiry", file.min_expiry, file.max_expiry);
  if (file.busy) out += " busy";
  if (file.quarantined) out += " quarantined";
  return out + "]";
}

std::string to_text(const TreeShape& shape) {
  std::string tree;
  if (shape.memtable_bytes != 0) tree += " memtable=" + bytes_to_text(shape.memtable_bytes);
  if (shape.file_bytes != 0) tree += " file=" + bytes_to_text(shape.file_bytes);
  if (shape.flushes != 0) tree += " flushes=" + std::to_string(shape.flushes);
  if (shape.levels != 0) tree += " levels=" + std::to_string(shape.levels);
  std::string out = tree.empty() ? "" : "tree" + tree + "\n";
  for (std::size_t level = 0; level < shape.cursors.size(); ++level) {
    if (!shape.cursors[level].empty()) out += "cursor L" + std::to_string(level) + " " + key_to_text(shape.cursors[level]) + "\n";
  }
  for (const RunShape& run : shape.runs) {
    out += "L" + std::to_string(run.level) + " r" + std::to_string(run.id) + ":";
    for (const FileShape& file : run.files) out += " " + to_text(file);
    out += "\n";
  }
  return out;
}

std::string to_text(const Plan& plan) {
  struct Visitor {
    std::string operator()(const std::monostate&) const { return "none"; }
    std::string operator()(const Merge& m) const { return "merge" + inputs_text(m.inputs) + target_text(m.target); }
    std::string operator()(const Slice& s) const {
      return "slice" + inputs_text(s.inputs) + " " + key_to_text(s.range.start) + ".." +
             (s.range.end.empty() ? "*" : key_to_text(s.range.end)) + target_text(s.target);
    }
    std::string operator()(const Move& m) const { return "move" + inputs_text({{m.from, m.files}}) + target_text(m.target); }
    std::string operator()(const Rewrite& r) const {
      const std::string into = r.file_bytes == 0 ? "" : " into " + bytes_to_text(r.file_bytes);
      return "rewrite" + inputs_text({{r.run, {r.file}}}) + into;
    }
    std::string operator()(const Drop& d) const {
      return "drop" + inputs_text(d.inputs) + (d.pages.empty() ? "" : " pages" + pages_text(d.pages));
    }
  };
  const std::string action = std::visit(Visitor{}, plan.action);
  if (plan.empty()) return action;
  return action + " (" + reason_name(plan.reason) + (plan.urgent ? ", urgent)" : ")");
}

Result<std::string> parse_key(Bytes text) {
  std::string key;
  Scanner in(text);
  if (!in.key(&key) || (!in.at_end() && !in.fail("nothing more"))) return Status::invalid_argument("key: " + in.error());
  return key;
}

Result<TreeShape> parse_shape(Bytes text) {
  TreeShape shape;
  for (std::size_t line = 1; !text.empty(); ++line) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    Scanner in(text.substr(0, end));
    if (!in.at_end() && !parse_line(&in, &shape))
      return Status::invalid_argument("line " + std::to_string(line) + ": " + in.error());
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return shape;
}

Result<Plan> parse_plan(Bytes text) {
  Plan plan;
  Scanner in(text);
  const std::string verb = in.word();
  if (verb == "none" && in.at_end()) return plan;
  if (!parse_action(&in, verb, &plan) || !parse_reason(&in, &plan)) return Status::invalid_argument("plan: " + in.error());
  return plan;
}

}  // namespace ebbtide
