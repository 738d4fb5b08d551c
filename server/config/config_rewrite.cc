// CONFIG REWRITE replaces values in the text of the file one at a time, and parses the changed text again each time. It uses a
// position from the parser (line, column) only if the text there is as expected. At the end it loads the result and compares it
// with the configuration. If the file cannot be edited safely, the error names the key.
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <optional>
#include <set>

#include "config/config.h"

namespace ebbtide {
namespace {

std::vector<std::string> split(const std::string& name) {
  std::vector<std::string> parts(1);
  for (const char c : name) {
    if (c == '.') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

std::string quoted(const std::string& text) {
  const bool plain =
      !text.empty() &&
      text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._/-") == std::string::npos &&
      text[0] != '-' && text[0] != '.' && text != "null" && text != "yes" && text != "no" && text != "true" && text != "false";
  if (plain) return text;
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string yaml_text(const ConfigKey& key, const std::string& value) {
  if (key.type == ConfigType::kText) return quoted(value);
  if (key.type != ConfigType::kList) return value;
  std::string out, item;
  for (const char c : value + " ") {
    if (c != ' ') {
      item += c;
    } else if (!item.empty()) {
      out += (out.empty() ? "" : ", ") + quoted(item);
      item.clear();
    }
  }
  return "[" + out + "]";
}

class Editor {
 public:
  Editor(std::string text, std::string file) : text_(std::move(text)), file_(std::move(file)) {}

  const std::string& text() const { return text_; }

  // Replaces the value of a key, or adds the key.
  Status set(const ConfigKey& key, const std::string& value) {
    const std::string wanted = yaml_text(key, value);
    const YAML::Node root = YAML::Load(text_);
    const auto parts = split(key.name);
    YAML::Node node = root, parent_key;
    std::size_t depth = 0;
    while (depth < parts.size() && node.IsMap()) {
      bool found = false;
      for (const auto& item : node) {
        if (item.first.Scalar() != parts[depth]) continue;
        parent_key.reset(item.first);
        node.reset(item.second);
        found = true;
        break;
      }
      if (!found) break;
      ++depth;
    }
    if (depth == parts.size()) return replace(key, node, wanted);
    return insert(key, node, depth == 0 ? std::nullopt : std::optional(parent_key), parts, depth, wanted);
  }

  bool has(Bytes name) const {
    YAML::Node node = YAML::Load(text_);
    for (const auto& part : split(std::string(name))) {
      if (!node.IsMap()) return false;
      YAML::Node next;
      for (const auto& item : node) {
        if (item.first.Scalar() == part) next.reset(item.second);
      }
      if (next.IsNull()) return false;
      node.reset(next);
    }
    return true;
  }

  // Removes a key: its line, or its part of a map in braces.
  Status erase(const std::string& name) {
    const YAML::Node root = YAML::Load(text_);
    YAML::Node node = root, key;
    for (const auto& part : split(name)) {
      bool found = false;
      for (const auto& item : node) {
        if (item.first.Scalar() != part) continue;
        key.reset(item.first);
        node.reset(item.second);
        found = true;
        break;
      }
      if (!found) return Status::ok();
    }
    std::size_t begin = offset(key.Mark());
    std::size_t end = scalar_end(offset(node.Mark()));
    const std::size_t line = text_.rfind('\n', begin) + 1;
    if (text_.find_first_not_of(' ', line) == begin) {  // the key has a line of its own
      end = text_.find('\n', end);
      text_.erase(line, end == std::string::npos ? std::string::npos : end + 1 - line);
      return Status::ok();
    }
    const std::size_t next = text_.find_first_not_of(' ', end);
    if (next != std::string::npos && text_[next] == ',') {
      end = text_.find_first_not_of(' ', next + 1);
    } else if (const std::size_t comma = text_.find_last_not_of(' ', begin - 1);
               comma != std::string::npos && text_[comma] == ',') {
      begin = comma;
    }
    text_.erase(begin, end - begin);
    return Status::ok();
  }

 private:
  Status refuse(const ConfigKey& key) const {
    return Status::invalid_argument(file_ + ": " + key.name +
                                    " is written in a form that CONFIG REWRITE cannot change; change the file by hand");
  }

  std::size_t offset(const YAML::Mark& mark) const {
    std::size_t at = 0;
    for (int line = 0; line < mark.line; ++line) at = text_.find('\n', at) + 1;
    return at + static_cast<std::size_t>(mark.column);
  }

  // Returns the end of the scalar, [ ] or { } that begins at `begin`.
  std::size_t scalar_end(std::size_t begin) const {
    const char first = text_[begin];
    if (first == '"' || first == '\'') {
      for (std::size_t i = begin + 1; i < text_.size(); ++i) {
        if (text_[i] == '\\' && first == '"') {
          ++i;
        } else if (text_[i] == first) {
          if (first == '\'' && i + 1 < text_.size() && text_[i + 1] == '\'') {
            ++i;
            continue;
          }
          return i + 1;
        }
      }
      return text_.size();
    }
    if (first == '[' || first == '{') {
      const char last = first == '[' ? ']' : '}';
      for (std::size_t i = begin + 1; i < text_.size(); ++i) {
        if (text_[i] == '"' || text_[i] == '\'' || text_[i] == '[' || text_[i] == '{') {
          i = scalar_end(i) - 1;
        } else if (text_[i] == last) {
          return i + 1;
        }
      }
      return text_.size();
    }
    // A plain scalar ends at the comment, the end of the line, or, inside { } or [ ], the next separator.
    std::size_t end = text_.find('\n', begin);
    if (end == std::string::npos) end = text_.size();
    if (const std::size_t comment = text_.find(" #", begin); comment < end) end = comment;
    if (in_flow(begin)) end = std::min(end, text_.find_first_of(",}]", begin));
    while (end > begin && (text_[end - 1] == ' ' || text_[end - 1] == '\r')) --end;
    return end;
  }

  // Returns true if `at` is inside a { or [ that opens on the same line. Braces over several lines are not recognized; the final
  // check then refuses the edit.
  bool in_flow(std::size_t at) const {
    int open = 0;
    for (std::size_t i = text_.rfind('\n', at) + 1; i < at; ++i) {
      if (text_[i] == '"' || text_[i] == '\'') {
        i = scalar_end(i) - 1;
      } else if (text_[i] == '{' || text_[i] == '[') {
        ++open;
      } else if (text_[i] == '}' || text_[i] == ']') {
        --open;
      }
    }
    return open > 0;
  }

  Status replace(const ConfigKey& key, const YAML::Node& node, const std::string& wanted) {
    if (node.IsMap() || node.IsNull()) return refuse(key);
    const std::size_t begin = offset(node.Mark());
    if (begin >= text_.size()) return refuse(key);
    if (node.IsSequence() && text_[begin] != '[') return refuse(key);
    const std::size_t end = scalar_end(begin);
    const bool plain = std::string("\"'[").find(text_[begin]) == std::string::npos;
    if (plain && text_.substr(begin, end - begin) != node.Scalar()) return refuse(key);
    text_.replace(begin, end - begin, wanted);
    return Status::ok();
  }

  // Inserts a key. `node`: the deepest existing map on the key's path, or an empty section. `parent_key`: that map's key.
  Status insert(const ConfigKey& key, const YAML::Node& node, const std::optional<YAML::Node>& parent_key,
                const std::vector<std::string>& parts, std::size_t depth, const std::string& wanted) {
    const auto block = [&](std::size_t indent) {
      std::string lines;
      for (std::size_t i = depth; i < parts.size(); ++i) {
        lines += std::string(indent + 2 * (i - depth), ' ') + parts[i] + ":" + (i + 1 == parts.size() ? " " + wanted : "") + "\n";
      }
      return lines;
    };
    if (!parent_key) {
      if (!text_.empty() && text_.back() != '\n') text_ += '\n';
      text_ += block(0);
      return Status::ok();
    }
    const std::size_t key_at = offset(parent_key->Mark());
    const auto after_line = [&] {
      const std::size_t end = text_.find('\n', key_at);
      if (end != std::string::npos) return end + 1;
      text_ += '\n';
      return text_.size();
    };
    if (node.IsNull()) {
      const std::size_t line = text_.rfind('\n', key_at) + 1;
      const std::size_t where = after_line();
      text_.insert(where, block(key_at - line + 2));
      return Status::ok();
    }
    if (!node.IsMap()) return refuse(key);
    const std::size_t begin = offset(node.Mark());
    if (begin < text_.size() && text_[begin] == '{') {
      std::string item;
      for (std::size_t i = parts.size(); i-- > depth;) item = parts[i] + ": " + (item.empty() ? wanted : "{ " + item + " }");
      text_.insert(begin + 1, " " + item + (node.size() > 0 ? "," : " "));
      return Status::ok();
    }
    const int column = node.begin()->first.Mark().column;
    const std::size_t where = after_line();
    text_.insert(where, block(static_cast<std::size_t>(column)));
    return Status::ok();
  }

  std::string text_, file_;
};

// Returns the names of all keys that have a value in `a` or `b`, in order.
std::vector<std::string> key_names(const Config& a, const Config& b) {
  std::vector<std::string> names;
  for (const ConfigKey& key : config_keys()) names.push_back(key.name);
  std::set<std::string> open;
  for (const Config* c : {&a, &b}) {
    for (const auto& parameter : c->engine.tree.policy.parameters) open.insert("tree.policy." + parameter.first);
    for (const auto& [database, tree] : c->engine.overrides) {
      const std::string prefix = "databases." + std::to_string(database) + ".";
      for (const ConfigKey& key : config_keys()) {
        if (key.name.compare(0, 5, "tree.") == 0) open.insert(prefix + key.name.substr(5));
      }
      for (const auto& parameter : tree.policy.parameters) open.insert(prefix + "policy." + parameter.first);
    }
  }
  names.insert(names.end(), open.begin(), open.end());
  return names;
}

}  // namespace

Result<std::string> rewrite_config(const std::string& text, const std::string& file, const Config& config) {
  try {
    Editor editor(text, file);
    // Removes an older name of a key if the file also has the current one. A key that has only its older name, and an unchanged
    // value, stays as it is.
    TRY_ASSIGN(original, load_config_text(text, file, {}));
    for (const Bytes older : older_names()) {
      const ConfigKeyPtr key = find_config_key(older);
      const std::string wanted = key->get(config);
      if (!editor.has(older) || (!editor.has(key->name) && wanted == key->get(original))) continue;
      TRY(editor.erase(std::string(older)));
      TRY(editor.set(*key, wanted));
    }
    for (const bool overrides : {false, true}) {  // defaults first, since databases inherit from them
      TRY_ASSIGN(before, load_config_text(editor.text(), file, {}));
      for (const std::string& name : key_names(before, config)) {
        if ((name.compare(0, 10, "databases.") == 0) != overrides) continue;
        const ConfigKeyPtr key = find_config_key(name);
        const std::string wanted = key->get(config);
        if (wanted == key->get(before)) continue;
        TRY(wanted.empty() && key->type == ConfigType::kNumber ? editor.erase(name) : editor.set(*key, wanted));
      }
    }
    TRY_ASSIGN(after, load_config_text(editor.text(), file, {}));
    for (const std::string& name : key_names(after, config)) {
      const ConfigKeyPtr key = find_config_key(name);
      if (key->get(after) != key->get(config)) {
        return Status::invalid_argument(file + ": " + name +
                                        " is written in a form that CONFIG REWRITE cannot change; change the file by hand");
      }
    }
    return editor.text();
  } catch (const YAML::Exception& e) {
    return Status::invalid_argument(file + ": " + e.what());
  }
}

}  // namespace ebbtide
