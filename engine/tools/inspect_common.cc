#include <algorithm>

#include "base/number_name.h"
#include "base/quote.h"
#include "io/file_names.h"
#include "tools/inspect.h"

namespace ebbtide {

SplitPath split_path(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return {parent_path(path), slash == std::string::npos ? path : path.substr(slash + 1)};
}

DatabasesOf databases_of(TreeId tree, const std::map<DatabaseId, TreeId>& databases) {
  DatabasesOf out;
  for (const auto& [database, its_tree] : databases) {
    if (its_tree != tree) continue;
    out.text += (out.text.empty() ? " of " : ", ") + number_name(database);
    out.ids.add(std::to_string(database));
  }
  return out;
}

Result<LoadedManifest> load_manifest(FileSystem& fs, const std::string& dir) {
  TRY_ASSIGN(file, read_current(fs, dir));
  return load_manifest_file(fs, dir, file);
}

Result<LoadedManifest> load_manifest_file(FileSystem& fs, const std::string& dir, FileNum file) {
  LoadedManifest loaded;
  loaded.file = file;
  StateBuilder builder;
  const auto on_record = [&builder](Bytes payload, std::uint64_t) -> Status {
    TRY_ASSIGN(edit, VersionEdit::decode(payload));
    return builder.add(edit);
  };
  TRY_ASSIGN(end, read_manifest(fs, dir, file, on_record));
  Result<VersionState> state = builder.finish();
  if (!state.is_ok())
    return state.status().with_context(manifest_file_name(file) + ": offset " + std::to_string(end.valid_bytes));
  loaded.state = std::move(state).value();
  loaded.end = end;
  return loaded;
}

Result<std::vector<FileNum>> files_of_kind(FileSystem& fs, const std::string& dir, int kind) {
  TRY_ASSIGN(names, fs.list(dir));
  std::vector<FileNum> numbers;
  for (const std::string& name : names) {
    FileKind found{};
    FileNum file = kNoFile;
    if (parse_file_name(name, &found, &file) && static_cast<int>(found) == kind) numbers.push_back(file);
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

std::string without_slashes(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

}  // namespace ebbtide
