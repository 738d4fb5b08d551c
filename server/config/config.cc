#include "config/config.h"

#include <sys/stat.h>
#include <yaml-cpp/anchor.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>
#include <charconv>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <set>
#include <sstream>
#include <system_error>

namespace ebbtide {
namespace {

struct Assignment {
  std::string name, value;
  std::string where;  ///< "config/ebbtide.yaml:12", "environment", "--set"
};

bool is_section(const std::string& name) {
  if (name == "databases" || (name.substr(0, 10) == "databases." && name.find('.', 10) == std::string::npos)) return true;
  const std::string prefix = name + ".";
  Bytes tail = prefix;
  if (prefix.substr(0, 10) == "databases.") {
    tail.remove_prefix(prefix.find('.', 10) + 1);
    const std::string in_tree = "tree." + std::string(tail);
    return std::any_of(config_keys().begin(), config_keys().end(),
                       [&](const ConfigKey& key) { return key.name.compare(0, in_tree.size(), in_tree) == 0; });
  }
  return std::any_of(config_keys().begin(), config_keys().end(),
                     [&](const ConfigKey& key) { return key.name.compare(0, prefix.size(), prefix) == 0; });
}

std::string at(const std::string& file, const YAML::Mark& mark) { return file + ":" + std::to_string(mark.line + 1); }

Status wrong(const std::string& where, const std::string& name, const std::string& what) {
  return Status::invalid_argument(where + ": " + (name.empty() ? "" : name + ": ") + what);
}

// Turns a YAML document into a flat list of names and texts.
Status flatten(const YAML::Node& node, const std::string& name, const std::string& file, std::vector<Assignment>* out) {
  const std::string where = at(file, node.Mark());
  if (node.IsMap()) {
    if (!name.empty() && !is_section(name)) {
      const ConfigKeyPtr key = find_config_key(name);
      return wrong(where, name,
                   key != nullptr ? "a single value is expected; allowed: " + key->allowed : explain_unknown_key(name));
    }
    std::set<std::string> seen;
    for (const auto& item : node) {
      if (!item.first.IsScalar()) return wrong(at(file, item.first.Mark()), name, "a key must be a plain name");
      const std::string child = (name.empty() ? "" : name + ".") + item.first.Scalar();
      if (!seen.insert(child).second) return wrong(at(file, item.first.Mark()), child, "is given twice");
      const bool known = is_section(child) || find_config_key(child) != nullptr;
      if (!known) return wrong(at(file, item.first.Mark()), child, explain_unknown_key(child));
      TRY(flatten(item.second, child, file, out));
    }
    return Status::ok();
  }
  if (name.empty())
    return node.IsNull() ? Status::ok() : wrong(where, {}, "the file must consist of sections, such as server: and storage:");
  if (is_section(name)) {
    return node.IsNull() ? Status::ok() : wrong(where, name, "is a section; its keys must be below it");
  }
  const ConfigKeyPtr key = find_config_key(name);
  if (node.IsNull()) return wrong(where, name, "has no value; allowed: " + key->allowed);
  std::string value;
  if (node.IsSequence()) {
    if (key->type != ConfigType::kList) return wrong(where, name, "a single value is expected; allowed: " + key->allowed);
    for (const auto& item : node) {
      if (!item.IsScalar()) return wrong(at(file, item.Mark()), name, "an element of the list is not a plain value");
      value += (value.empty() ? "" : " ") + item.Scalar();
    }
  } else {
    value = node.Scalar();
  }
  out->push_back({name, value, where});
  return Status::ok();
}

std::string name_from_environment(const std::string& variable) {
  std::string name;
  for (std::size_t i = 8; i < variable.size(); ++i) {  // the characters after EBBTIDE_
    if (variable.compare(i, 2, "__") == 0) {
      name += '.';
      ++i;
    } else {
      name += static_cast<char>(variable[i] >= 'A' && variable[i] <= 'Z' ? variable[i] + 32 : variable[i]);
    }
  }
  return name;
}

// Returns the rank in which an assignment is applied. Defaults of all databases come before settings of one database. A policy's
// name comes before its parameters, and a key's older name before its current one.
int rank(const Assignment& a) {
  const int database = a.name.compare(0, 10, "databases.") == 0 ? 2 : 0;
  constexpr Bytes kPolicyName = ".policy.name";
  const bool policy_name = a.name.size() > kPolicyName.size() &&
                           a.name.compare(a.name.size() - kPolicyName.size(), kPolicyName.size(), kPolicyName) == 0;
  return database + (policy_name || is_older_name(a.name) ? 0 : 1);
}

Status apply(const std::vector<Assignment>& layer, int wanted_rank, Config* config) {
  for (const Assignment& a : layer) {
    if (rank(a) != wanted_rank) continue;
    const ConfigKeyPtr key = find_config_key(a.name);
    if (key == nullptr) {
      return wrong(a.where, a.name, is_section(a.name) ? "is a section; set one of its keys" : explain_unknown_key(a.name));
    }
    if (Status status = key->set(*config, a.value); !status.is_ok()) return wrong(a.where, a.name, std::string(status.message()));
  }
  return Status::ok();
}

/// Refuses YAML that the parser accepts but that has no meaning here: tags, and a second document.
class Strict final : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1) throw YAML::ParserException(mark, "a second document begins here; one is allowed");
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t, const std::string&) override { check(mark, tag); }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t, YAML::EmitterStyle::value) override {
    check(mark, tag);
  }
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t, YAML::EmitterStyle::value) override {
    check(mark, tag);
  }
  void OnMapEnd() override {}

 private:
  // "?" is the tag of a plain value, "!" of a quoted one. The other tags are YAML's own types, which are implicit for every
  // value.
  static void check(const YAML::Mark& mark, const std::string& tag) {
    constexpr Bytes kOwn = "tag:yaml.org,2002:";
    if (tag.empty() || tag == "?" || tag == "!") return;
    const bool own = tag.compare(0, kOwn.size(), kOwn) == 0;
    const std::string name = own ? tag.substr(kOwn.size()) : tag;
    for (const char* known : {"str", "int", "float", "bool", "null", "seq", "map"}) {
      if (own && name == known) return;
    }
    throw YAML::ParserException(mark, "the tag " + std::string(own ? "!!" : "") + name + " is not known; leave it out");
  }

  int documents_ = 0;
};

/// Checks the text with Strict, and throws YAML::Exception. YAML::LoadAll is not used, since it never returns for some invalid
/// texts such as ",,".
void check_strictly(const std::string& text) {
  std::istringstream in(text);
  YAML::Parser parser(in);
  Strict strict;
  if (parser.HandleNextDocument(strict)) (void)parser.HandleNextDocument(strict);
}

/// Returns the text of a value from the command line or the environment. A list may have the form of YAML, [a, b]; its items are
/// then joined by spaces, the form that the key takes.
Result<std::string> given_value(const std::string& name, const std::string& value, const std::string& where) {
  const ConfigKeyPtr key = find_config_key(name);
  const std::size_t first = value.find_first_not_of(' ');
  if (key == nullptr || key->type != ConfigType::kList || first == std::string::npos || value[first] != '[') return value;
  const Status no_list =
      wrong(where, name, "'" + value + "' is not a list of plain values, such as [a, b]; allowed: " + key->allowed);
  try {
    check_strictly(value);
    const YAML::Node node = YAML::Load(value);
    if (!node.IsSequence()) return no_list;
    std::string text;
    for (const auto& item : node) {
      if (!item.IsScalar()) return no_list;
      text += (text.empty() ? "" : " ") + item.Scalar();
    }
    return text;
  } catch (const YAML::Exception&) {
    return no_list;
  }
}

}  // namespace

Result<Config> load_config_text(const std::string& text, const std::string& file, const ConfigSources& sources) {
  std::vector<Assignment> layers[3];
  try {
    check_strictly(text);
    const YAML::Node root = YAML::Load(text);
    if (!root.IsNull()) TRY(flatten(root, {}, file, &layers[0]));
  } catch (const YAML::Exception& e) {
    return wrong(at(file, e.mark), {}, e.msg);
  }
  for (const auto& [variable, value] : sources.environment) {
    if (variable.compare(0, 8, "EBBTIDE_") != 0 || variable.find("__") == std::string::npos) continue;
    const std::string name = name_from_environment(variable);
    TRY_ASSIGN(given, given_value(name, value, "environment " + variable));
    layers[1].push_back({name, given, "environment " + variable});
  }
  for (const auto& [name, value] : sources.command_line) {
    TRY_ASSIGN(given, given_value(name, value, "command line"));
    layers[2].push_back({name, given, "command line"});
  }
  Config config;
  // First the defaults from all sources, then the settings of single databases from all sources.
  for (int kind = 0; kind < 4; kind += 2) {
    for (const auto& layer : layers) {
      TRY(apply(layer, kind, &config));
      TRY(apply(layer, kind + 1, &config));
    }
  }
  Status status = validate(config);
  // validate() does not check this, since CONFIG SET may replace a password that comes from a file until the next start. CONFIG
  // REWRITE is refused then.
  if (status.is_ok() && !config.password.empty() && !config.password_file.empty()) {
    status = Status::invalid_argument("server.password and server.password_file are both set; only one of them is allowed");
  }
  if (!status.is_ok()) return file.empty() ? status : status.with_context(file);
  return config;
}

Result<std::string> read_text_file(const std::string& path) {
  // Opening a named pipe without a writer would block, and a device may have no end.
  if (struct stat info{}; ::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode)) {
    return Status::invalid_argument(
        path + ": is a pipe or a device, not a regular file; write its content to a file, and give that file's path");
  }
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  if (in.is_open()) in.peek();  // a directory can be opened, but not read
  if (!in.is_open() || in.bad())
    return Status::invalid_argument(path + ": cannot be read: " + std::generic_category().message(errno));
  std::ostringstream content;
  content << in.rdbuf();
  return content.str();
}

Result<std::string> read_secret(const std::string& path) {
  TRY_ASSIGN(secret, read_text_file(path));
  if (!secret.empty() && secret.back() == '\n') secret.pop_back();
  if (!secret.empty() && secret.back() == '\r') secret.pop_back();
  if (secret.empty()) return Status::invalid_argument(path + " is empty");
  return secret;
}

namespace {

// Reads the passwords from their files, which may have stricter permissions than the configuration file.
Status read_passwords(Config* config) {
  if (!config->password_file.empty()) {
    auto secret = read_secret(config->password_file);
    if (!secret.is_ok()) return secret.status().with_context("server.password_file");
    config->file_password = std::move(secret).value();
  }
  if (config->metrics_password_file.empty()) return Status::ok();
  // The content is only checked here, since the server reads the file again when it opens the HTTP port.
  return read_secret(config->metrics_password_file).status().with_context("metrics.password_file");
}

}  // namespace

std::uint64_t memory_budget_of(const Config& config, std::uint64_t memory) {
  constexpr std::uint64_t kLeastBudget = std::uint64_t{64} << 20;
  return config.engine.memory_budget != 0 ? config.engine.memory_budget : std::max(memory / 2, kLeastBudget);
}

Result<Users> read_users(const Config& config, std::uint64_t most_bytes) {
  if (config.users_file.empty()) return Users();
  TRY_ASSIGN(text, read_text_file(config.users_file));
  const AclCatalog none;
  TRY_ASSIGN(users, Users::parse(text, config.users_file, config.commands == nullptr ? none : *config.commands, most_bytes));
  TRY(users.with_default_password(config.secret()).status());
  return users;
}

Result<Config> load_config(const ConfigSources& sources) {
  std::string text;
  if (!sources.file.empty()) {
    TRY_ASSIGN(content, read_text_file(sources.file));
    text = std::move(content);
  }
  TRY_ASSIGN(config, load_config_text(text, sources.file, sources));
  TRY(read_passwords(&config));
  config.commands = sources.commands;
  const bool known = sources.memory != 0 || config.engine.memory_budget != 0;
  auto users = read_users(config, known ? memory_budget_of(config, sources.memory) / Users::kBudgetPart : ~std::uint64_t{0});
  if (!users.is_ok()) return users.status().with_context("server.users_file");
  config.file_users = std::move(users).value();
  if (std::string why; (config.tls_port != 0 || config.metrics_tls) && TlsContext::make(config.tls, &why) == nullptr) {
    return Status::invalid_argument(why);
  }
  config.file = sources.file;
  return config;
}

std::vector<double> Config::percentiles() const {
  std::vector<double> numbers;
  for (const std::string& text : latency_percentiles) {
    double value = 0;
    // Cannot fail, since the text was checked when the value was set.
    std::from_chars(text.data(), text.data() + text.size(), value);
    numbers.push_back(value);
  }
  return numbers;
}

Status validate(const Config& config) {
  Settings engine = config.engine;
  // any valid value will do: `auto` is resolved later, to a value in the range
  if (engine.memory_budget == 0) engine.memory_budget = Settings{}.memory_budget;
  if (engine.background_threads == 0) engine.background_threads = Settings{}.background_threads;
  TRY(validate(engine));
  const auto fits = [&](const std::string& prefix, const TreeSettings& tree) {
    if (config.engine.memory_budget == 0 || tree.memtable_size <= config.engine.memory_budget) return Status::ok();
    return Status::invalid_argument(prefix + "memtable_size is " + format_size(tree.memtable_size) +
                                    ", more than storage.memory_budget, which is " + format_size(config.engine.memory_budget));
  };
  TRY(fits("tree.", config.engine.tree));
  for (const auto& [database, tree] : config.engine.overrides) TRY(fits("databases." + std::to_string(database) + ".", tree));
  if (config.engine.memory_budget != 0 && config.engine.block_cache > config.engine.memory_budget) {
    return Status::invalid_argument("storage.block_cache is " + format_size(config.engine.block_cache) +
                                    ", more than storage.memory_budget, which is " + format_size(config.engine.memory_budget));
  }
  if (config.tls_port != 0 && (config.tls.cert_file.empty() || config.tls.key_file.empty())) {
    return Status::invalid_argument("server.tls.port is set and needs server.tls.cert_file and server.tls.key_file");
  }
  if (config.metrics_tls && (config.tls.cert_file.empty() || config.tls.key_file.empty())) {
    return Status::invalid_argument("metrics.tls is true and needs server.tls.cert_file and server.tls.key_file");
  }
  if (config.tls_port != 0 && config.tls_port == config.port) {
    return Status::invalid_argument("server.tls.port and server.port are both " + std::to_string(config.port));
  }
  if (config.tls_port != 0 && config.tls_port == config.metrics_port) {
    return Status::invalid_argument("server.tls.port and metrics.port are both " + std::to_string(config.tls_port));
  }
  if (config.metrics_port != 0 && config.metrics_port == config.port) {
    return Status::invalid_argument("metrics.port and server.port are both " + std::to_string(config.port));
  }
  return Status::ok();
}

std::optional<OperationFigures> Config::expected_workload() const {
  if (tuning_expected_workload.empty()) return std::nullopt;
  OperationFigures out;
  double* const shares[] = {&out.empty_read, &out.read, &out.range, &out.write};
  for (std::size_t i = 0; i < std::size(shares); ++i) *shares[i] = std::stod(tuning_expected_workload[i]);
  return out;
}

std::string backup_directory(const Config& config) {
  if (config.backup_dir != "auto") return config.backup_dir;
  std::string dir = config.engine.dir;
  while (dir.size() > 1 && dir.back() == '/') dir.pop_back();
  return dir + "-backups";
}

}  // namespace ebbtide
