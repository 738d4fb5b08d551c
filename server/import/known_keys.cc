#include "import/known_keys.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace ebbtide {
namespace {

using Hashes = KnownKeys::Hashes;
static_assert(sizeof(Hashes) == 16);

bool by_name(const Hashes& a, const Hashes& b) { return a.name < b.name; }

const Hashes* find(const std::vector<Hashes>& keys, std::uint64_t name) {
  const auto found = std::lower_bound(keys.begin(), keys.end(), Hashes{.name = name, .value = 0}, by_name);
  return found != keys.end() && found->name == name ? &*found : nullptr;
}

Status error_of(const std::string& path) { return Status::io_error(path + ": " + std::strerror(errno)); }

/// Sorts the keys by name. Of several keys with one name, keeps the last.
void keep_last(std::vector<Hashes>* keys) {
  std::stable_sort(keys->begin(), keys->end(), by_name);
  std::size_t kept = 0;
  for (std::size_t i = 0; i < keys->size(); ++i) {
    if (i + 1 < keys->size() && (*keys)[i + 1].name == (*keys)[i].name) continue;
    (*keys)[kept++] = (*keys)[i];
  }
  keys->resize(kept);
}

}  // namespace

Result<KnownKeys> KnownKeys::create(const std::string& path) {
  KnownKeys keys;
  keys.path_ = path;
  if (path.empty()) return keys;
  keys.file_.reset(std::fopen(path.c_str(), "wb"));
  if (keys.file_ == nullptr) return error_of(path);
  return keys;
}

Result<KnownKeys> KnownKeys::resume(const std::string& path, std::uint64_t from, std::uint64_t to) {
  KnownKeys keys;
  keys.path_ = path;
  keys.file_.reset(std::fopen(path.c_str(), "r+b"));
  std::FILE* const file = keys.file_.get();
  if (file == nullptr || std::fseek(file, 0, SEEK_END) != 0) return error_of(path);
  const auto size = static_cast<std::uint64_t>(std::max(0L, std::ftell(file))) / sizeof(Hashes) * sizeof(Hashes);
  if (from > to || to > size || from % sizeof(Hashes) != 0) {
    return Status::corruption(path + " has " + std::to_string(size) + " bytes; the file of --resume needs bytes " +
                              std::to_string(from) + " to " + std::to_string(to));
  }
  keys.known_.resize((size - from) / sizeof(Hashes));
  if (std::fseek(file, static_cast<long>(from), SEEK_SET) != 0 ||
      std::fread(keys.known_.data(), sizeof(Hashes), keys.known_.size(), file) != keys.known_.size() ||
      ::ftruncate(::fileno(file), static_cast<off_t>(size)) != 0 || std::fseek(file, 0, SEEK_END) != 0) {
    return error_of(path);
  }
  for (std::size_t i = (to - from) / sizeof(Hashes); i < keys.known_.size(); ++i) keys.known_[i].value = kUnknown;
  keep_last(&keys.known_);
  keys.from_ = from;
  keys.pass_begin_ = keys.to_ = size;
  return keys;
}

bool KnownKeys::has(const Hashes& key) const {
  const Hashes* const known = find(known_, key.name);
  return known != nullptr && known->value == key.value && key.value != kUnknown;
}

Status KnownKeys::note(std::span<const Hashes> keys) {
  noted_.insert(noted_.end(), keys.begin(), keys.end());
  if (file_ == nullptr) return Status::ok();
  if (std::fwrite(keys.data(), sizeof(Hashes), keys.size(), file_.get()) != keys.size() || std::fflush(file_.get()) != 0)
    return error_of(path_);
  to_ += keys.size_bytes();
  return Status::ok();
}

void KnownKeys::end_notes() {
  std::sort(noted_.begin(), noted_.end(),
            [](const Hashes& a, const Hashes& b) { return a.name != b.name ? a.name < b.name : a.value < b.value; });
  // SCAN may return a key twice. If the two values differ, the value becomes unknown, so that the next pass sends the key again.
  for (std::size_t i = 1; i < noted_.size(); ++i) {
    if (noted_[i].name == noted_[i - 1].name && noted_[i].value != noted_[i - 1].value) noted_[i].value = kUnknown;
  }
  keep_last(&noted_);
}

bool KnownKeys::is_gone(std::uint64_t name) const { return find(known_, name) != nullptr && find(noted_, name) == nullptr; }

bool KnownKeys::any_gone() const { return !std::includes(noted_.begin(), noted_.end(), known_.begin(), known_.end(), by_name); }

std::uint64_t KnownKeys::next_pass() {
  known_ = std::exchange(noted_, {});
  from_ = std::exchange(pass_begin_, to_);
  return known_.size();
}

}  // namespace ebbtide
