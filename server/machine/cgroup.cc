#include "machine/cgroup.h"

#include <algorithm>
#include <fstream>
#include <functional>
#include <sstream>
#include <vector>

namespace ebbtide {
namespace {

// Without a limit, version 1 shows the largest number of whole pages. No real limit is that large.
constexpr std::uint64_t kUnlimited = std::uint64_t{1} << 60;

std::optional<std::string> first_line(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  if (!std::getline(in, line)) return std::nullopt;
  return line;
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, separator);) parts.push_back(part);
  return parts;
}

bool contains(const std::vector<std::string>& items, const std::string& item) {
  return std::find(items.begin(), items.end(), item) != items.end();
}

// Decodes a path of mountinfo, where blanks and backslashes are octal numbers such as \040.
std::string unescape(const std::string& text) {
  const auto is_octal = [](char c) { return c >= '0' && c <= '7'; };
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size() && is_octal(text[i + 1]) && is_octal(text[i + 2]) && is_octal(text[i + 3])) {
      out += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

// A mount point of a hierarchy: `point` shows the group `group` and its descendants.
struct Mount {
  std::string group, point;
};

// Returns the mounts of version 2, or those of version 1 that have a controller. A line of mountinfo looks like this:
//   36 35 0:33 /group /sys/fs/cgroup/memory rw,nosuid shared:9 - cgroup cgroup rw,memory
std::vector<Mount> mounts_of(const std::string& root, bool version2, const std::string& controller) {
  std::vector<Mount> found;
  std::ifstream in(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(in, line);) {
    const std::size_t separator = line.find(" - ");
    if (separator == std::string::npos) continue;
    const auto place = split(line.substr(0, separator), ' ');
    const auto system = split(line.substr(separator + 3), ' ');
    if (place.size() < 5 || system.empty() || system[0] != (version2 ? "cgroup2" : "cgroup")) continue;
    if (!version2 && (system.size() < 3 || !contains(split(system[2], ','), controller))) continue;
    found.push_back({unescape(place[3]), unescape(place[4])});
  }
  return found;
}

// Returns the process's group: in version 2 ("0::/path"), or in the version 1 hierarchy of a controller ("4:cpu,cpuacct:/path").
std::optional<std::string> group_of(const std::string& root, bool version2, const std::string& controller) {
  std::ifstream in(root + "/proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool matches =
        version2 ? line.compare(0, first, "0") == 0 && controllers.empty() : contains(split(controllers, ','), controller);
    if (matches) return line.substr(second + 1);
  }
  return std::nullopt;
}

// Returns the directories of the process's group and its ancestors, up to the mount point.
std::vector<std::string> directories(const Mount& mount, const std::string& group) {
  std::string below = group;
  if (mount.group != "/") {
    const bool inside = group == mount.group || group.compare(0, mount.group.size() + 1, mount.group + "/") == 0;
    below = inside ? group.substr(mount.group.size()) : "";
  }
  const bool outside = below.find("/..") != std::string::npos;  // outside of the cgroup namespace of the mount
  if (outside || below.substr(0, 1) != "/") below.clear();
  std::vector<std::string> found;
  for (; below.size() > 1; below.resize(below.rfind('/'))) found.push_back(mount.point + below);
  found.push_back(mount.point);
  return found;
}

// Calls `look` with each directory that may limit a controller, without `root`. A directory may be missing.
void each_directory(const std::string& root, const std::string& controller,
                    const std::function<void(const std::string& directory, bool version2)>& look) {
  for (const bool version2 : {true, false}) {
    const auto group = group_of(root, version2, controller);
    if (!group) continue;
    for (const Mount& mount : mounts_of(root, version2, controller)) {
      for (const std::string& directory : directories(mount, *group)) look(directory, version2);
    }
  }
}

template <typename T>
void keep_smallest(std::optional<CgroupLimit<T>>* smallest, T value, const std::string& file) {
  if (!*smallest || value < (*smallest)->value) *smallest = CgroupLimit<T>{value, file};
}

}  // namespace

std::optional<CgroupLimit<std::uint64_t>> cgroup_memory_limit(const std::string& root) {
  std::optional<CgroupLimit<std::uint64_t>> smallest;
  each_directory(root, "memory", [&](const std::string& directory, bool version2) {
    const auto files =
        version2 ? std::vector<std::string>{"/memory.max", "/memory.high"} : std::vector<std::string>{"/memory.limit_in_bytes"};
    for (const std::string& file : files) {
      std::istringstream line(first_line(root + directory + file).value_or(""));
      std::uint64_t bytes = 0;
      if (line >> bytes && bytes < kUnlimited) keep_smallest(&smallest, bytes, directory + file);
    }
  });
  return smallest;
}

std::optional<CgroupLimit<double>> cgroup_cpu_quota(const std::string& root) {
  std::optional<CgroupLimit<double>> smallest;
  each_directory(root, "cpu", [&](const std::string& directory, bool version2) {
    const std::string file = directory + (version2 ? "/cpu.max" : "/cpu.cfs_quota_us");
    std::string text = first_line(root + file).value_or("");
    if (!version2) text += " " + first_line(root + directory + "/cpu.cfs_period_us").value_or("");
    std::istringstream line(text);  // such as "150000 100000"; "max 100000" or -1 means no quota
    double quota = 0, period = 0;
    if (line >> quota >> period && quota > 0 && period > 0) keep_smallest(&smallest, quota / period, file);
  });
  return smallest;
}

}  // namespace ebbtide
