#include "pubsub/pubsub.h"

#include <algorithm>
#include <numeric>

#include "resp/reply.h"

namespace ebbtide {

namespace {

/// In Redis, the empty channel matches only the empty pattern, and not "*".
bool matches(Bytes pattern, Bytes channel) { return channel.empty() ? pattern.empty() : glob_match(pattern, channel); }

Bytes without_end(const std::string& text_and_end) { return Bytes(text_and_end).substr(0, text_and_end.size() - 2); }

}  // namespace

void PubSub::add(Kind kind, const std::string& name, Subscriber subscriber) {
  std::lock_guard lock(mutex_);
  Entry& entry = kind == Kind::kPattern ? patterns_[name] : of(kind).part_of(name)[name];
  if (kind == Kind::kPattern && entry.subscribers.empty()) {
    pattern_weight_.fetch_add(weight_of(name), std::memory_order_relaxed);
    entry.pattern_and_end = std::make_shared<const std::string>(name + "\r\n");
  }
  entry.subscribers.push_back(subscriber);
  if (hears_keyspace(kind, name)) keyspace_listeners_.fetch_add(1, std::memory_order_relaxed);
}

void PubSub::remove(Kind kind, const std::string& name, Subscriber subscriber) {
  std::lock_guard lock(mutex_);
  const auto remove_from = [&](auto& names) {
    const auto it = names.find(name);
    if (it == names.end()) return;
    const std::size_t removed = std::erase(it->second.subscribers, subscriber);
    if (hears_keyspace(kind, name)) keyspace_listeners_.fetch_sub(removed, std::memory_order_relaxed);
    if (!it->second.subscribers.empty()) return;
    if (kind == Kind::kPattern) pattern_weight_.fetch_sub(weight_of(name), std::memory_order_relaxed);
    names.erase(it);
  };
  kind == Kind::kPattern ? remove_from(patterns_) : remove_from(of(kind).part_of(name));
}

void PubSub::Audience::add(const Subscriber& subscriber, const std::shared_ptr<const std::string>& pattern_and_end) {
  ++size_;
  auto it = std::find_if(loops_.begin(), loops_.end(), [&](const auto& entry) { return entry.first == subscriber.loop; });
  if (it == loops_.end()) it = loops_.insert(loops_.end(), {subscriber.loop, {}});
  it->second.push_back({subscriber.client_id, pattern_and_end});
}

PubSub::Audience PubSub::audience(Kind kind, Bytes channel) const {
  Audience out;
  if (pattern_work(kind, channel) > kFewBytes) {
    Search(*this, kind, channel).go_on(&out, ~std::size_t{0}, nullptr);
    return out;
  }
  std::shared_lock lock(mutex_);
  const Names::Part& names = of(kind).part_of(channel);
  if (const auto it = names.find(channel); it != names.end()) {
    for (const Subscriber& subscriber : it->second.subscribers) out.add(subscriber, nullptr);
  }
  if (kind != Kind::kChannel) return out;
  for (const auto& [pattern, entry] : patterns_) {
    if (!matches(pattern, channel)) continue;
    for (const Subscriber& subscriber : entry.subscribers) out.add(subscriber, entry.pattern_and_end);
  }
  return out;
}

bool PubSub::Search::take_patterns() {
  const std::shared_ptr<const std::string> last = patterns_.empty() ? nullptr : patterns_.back();
  patterns_.clear();
  next_ = 0;
  std::shared_lock lock(registry_.mutex_);
  const Patterns& all = registry_.patterns_;
  for (auto it = last == nullptr ? all.begin() : all.upper_bound(without_end(*last)); it != all.end(); ++it) {
    patterns_.push_back(it->second.pattern_and_end);
    if (patterns_.size() == kPatternsAtOnce) break;
  }
  return !patterns_.empty();
}

void PubSub::Search::add_subscribers(const std::shared_ptr<const std::string>& pattern_and_end, Audience* found) const {
  std::shared_lock lock(registry_.mutex_);
  const auto it = registry_.patterns_.find(without_end(*pattern_and_end));
  if (it == registry_.patterns_.end()) return;
  for (const Subscriber& subscriber : it->second.subscribers) found->add(subscriber, pattern_and_end);
}

bool PubSub::Search::go_on(Audience* found, std::size_t most, const Over& over) {
  if (!begun_) {
    begun_ = true;
    std::shared_lock lock(registry_.mutex_);
    const Names::Part& names = registry_.of(kind_).part_of(channel_);
    if (const auto it = names.find(channel_); it != names.end()) {
      for (const Subscriber& subscriber : it->second.subscribers) found->add(subscriber, nullptr);
    }
  }
  if (kind_ != Kind::kChannel) return true;
  const std::size_t cost = 16 + channel_.size() / 16;  // steps for comparing one pattern
  std::size_t steps = kStepsAtOnce;
  while (true) {
    if (next_ == patterns_.size() && !take_patterns()) return true;
    const auto& pattern = patterns_[next_];
    if (!match_) match_.emplace(without_end(*pattern), channel_);
    const std::optional<bool> matched = channel_.empty() ? pattern->size() == 2 : match_->go_on(kStepsAtOnce);
    if (matched) {
      if (*matched) add_subscribers(pattern, found);
      match_.reset();
      ++next_;
    }
    steps -= std::min(steps, matched ? cost : kStepsAtOnce);
    if (steps > 0 && found->size() < most) continue;
    if (found->size() >= most || (over && over())) return false;
    steps = kStepsAtOnce;
  }
}

std::shared_ptr<const PubSub::Message> PubSub::message_of(Kind kind, Bytes channel, Bytes text, std::uint64_t seq,
                                                          Value value) const {
  std::string text_and_end = value != nullptr ? std::string() : std::string(text) + "\r\n";
  auto message = std::make_shared<Message>(kind, std::string(channel) + "\r\n", std::move(text_and_end), seq, std::move(value));
  const std::size_t bytes = message->channel_and_end.size() + message->text_and_end.size();
  if (bytes >= kSharedBytes) message->charge.emplace(texts, bytes);
  return message;
}

void PubSub::send(Audience audience, Kind kind, Bytes channel, Bytes text, ClientLoop* here, std::uint64_t seq,
                  Value value) const {
  if (audience.size() == 0) return;
  send(std::move(audience), message_of(kind, channel, text, seq, std::move(value)), here);
}

void PubSub::send(Audience&& audience, const std::shared_ptr<const Message>& message, ClientLoop* here) {
  for (auto& [loop, targets] : audience.loops_) {
    if (loop == here) {
      deliver(*loop, message, targets);
    } else if (Gathering::current_ != nullptr) {
      Gathering::current_->add(loop, {message, std::move(targets)});
    } else {
      loop->post([l = loop, message, t = std::move(targets)] { deliver(*l, message, t); });
    }
  }
}

bool PubSub::Publishing::go_on(const Over& over) {
  while (true) {
    Audience found;
    const bool complete = search_.go_on(&found, kClientsAtOnce, over);
    send(std::move(found), message_, here_);
    if (complete) return true;
    if (over && over()) return false;
  }
}

bool PubSub::Sending::go_on(ClientLoop* here, std::uint64_t seq, const Over& over) {
  if (message_ == nullptr) message_ = registry_.message_of(kind_, channel_, text_, seq, value_);
  for (; loop_ < audience_.loops_.size(); ++loop_, target_ = 0) {
    const auto& [loop, targets] = audience_.loops_[loop_];
    while (target_ < targets.size()) {
      const std::size_t count = std::min(kClientsAtOnce, targets.size() - target_);
      const auto first = targets.begin() + static_cast<std::ptrdiff_t>(target_);
      Audience part;
      part.loops_.emplace_back(loop, std::vector<Target>(first, first + static_cast<std::ptrdiff_t>(count)));
      PubSub::send(std::move(part), message_, here);
      target_ += count;
      if (over && over()) return loop_ + 1 == audience_.loops_.size() && target_ == targets.size();
    }
  }
  return true;
}

thread_local PubSub::Gathering* PubSub::Gathering::current_ = nullptr;

PubSub::Gathering::Gathering() { current_ = this; }

PubSub::Gathering::~Gathering() {
  current_ = nullptr;
  for (auto& [loop, parcels] : loops_) post(loop, std::move(parcels));
}

void PubSub::Gathering::add(ClientLoop* loop, Parcel parcel) {
  auto it = std::find_if(loops_.begin(), loops_.end(), [loop](const auto& entry) { return entry.first == loop; });
  if (it == loops_.end()) it = loops_.insert(loops_.end(), {loop, {}});
  it->second.push_back(std::move(parcel));
  if (it->second.size() >= kMessagesPerTask) post(loop, std::exchange(it->second, {}));
}

void PubSub::Gathering::post(ClientLoop* loop, Parcels parcels) {
  if (parcels.empty()) return;
  loop->post([loop, sent = std::move(parcels)] {
    for (const Parcel& parcel : sent) deliver(*loop, parcel.message, parcel.targets);
  });
}

void PubSub::publish(Kind kind, Bytes channel, Bytes text, ClientLoop* here, std::uint64_t seq, Reply* count, Value value) {
  Audience reached = audience(kind, channel);
  if (count != nullptr) count->integer(static_cast<std::int64_t>(reached.size()));
  send(std::move(reached), kind, channel, text, here, seq, std::move(value));
}

void PubSub::write(Reply& reply, const std::shared_ptr<const void>& owner, const std::string& text_and_end) {
  const Bytes text = without_end(text_and_end);
  text.size() < kSharedBytes ? reply.bulk(text) : reply.bulk_message(owner, text_and_end);
}

void PubSub::deliver(ClientLoop& loop, const std::shared_ptr<const Message>& shared, const std::vector<Target>& targets) {
  const Message& message = *shared;
  for (const Target& target : targets) {
    Client* client = loop.find(target.client_id);
    if (client == nullptr) continue;
    client->seen_seq = std::max(client->seen_seq, message.seq);
    Reply reply(&client->out, client->protocol);
    const auto& pattern = target.pattern_and_end;
    reply.push(pattern != nullptr ? 4 : 3);
    reply.bulk(pattern != nullptr ? "pmessage" : message.kind == Kind::kShard ? "smessage" : "message");
    if (pattern != nullptr) write(reply, pattern, *pattern);
    write(reply, shared, message.channel_and_end);
    if (message.value == nullptr) {
      write(reply, shared, message.text_and_end);
    } else {
      client->out.append("$" + std::to_string(message.value->size()) + "\r\n");
      client->out.append_shared(message.value, *message.value, true);
      client->out.append("\r\n");
    }
    client->check_push_limit();
    loop.touch(client);
  }
}

std::vector<std::string> PubSub::names(Kind kind, Bytes pattern, const Over& cancelled) const {
  constexpr std::size_t kSteps = 1 << 20;
  std::vector<std::string> out, part_of_all;
  for (const Names::Part& part : of(kind).parts()) {
    part_of_all.clear();
    {
      std::shared_lock lock(mutex_);
      for (const auto& [name, entry] : part) part_of_all.push_back(name);
    }
    for (std::string& name : part_of_all) {
      GlobMatch match(pattern.empty() ? "*" : pattern, name);
      std::optional<bool> matched;
      while (!(matched = match.go_on(kSteps))) {
        if (cancelled && cancelled()) return out;
      }
      if (*matched) out.push_back(std::move(name));
    }
    if (cancelled && cancelled()) return out;
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::size_t PubSub::count(Kind kind, Bytes name) const {
  std::shared_lock lock(mutex_);
  const Names::Part& names = of(kind).part_of(name);
  const auto it = names.find(name);
  return it == names.end() ? 0 : it->second.subscribers.size();
}

std::size_t PubSub::Names::size() const {
  return std::accumulate(parts_.begin(), parts_.end(), std::size_t{0},
                         [](std::size_t sum, const Part& part) { return sum + part.size(); });
}

std::size_t PubSub::size(Kind kind) const {
  std::shared_lock lock(mutex_);
  return kind == Kind::kPattern ? patterns_.size() : of(kind).size();
}

Subscriptions::~Subscriptions() {
  for (std::size_t kind = 0; kind < PubSub::kKinds; ++kind) {
    for (const std::string& name : names_[kind]) registry_.remove(static_cast<PubSub::Kind>(kind), name, self_);
  }
}

bool Subscriptions::add(PubSub::Kind kind, Bytes name) {
  const auto [it, is_new] = names_[static_cast<std::size_t>(kind)].emplace(name);
  if (!is_new) return false;
  bytes_ += bytes_of(name);
  registry_.add(kind, *it, self_);
  return true;
}

bool Subscriptions::remove(PubSub::Kind kind, Bytes name) {
  auto& names = names_[static_cast<std::size_t>(kind)];
  const auto it = names.find(name);
  if (it == names.end()) return false;
  registry_.remove(kind, *it, self_);
  bytes_ -= bytes_of(name);
  names.erase(it);
  return true;
}

bool Subscriptions::remove_some(std::size_t most) {
  for (std::size_t kind = 0; kind < PubSub::kKinds; ++kind) {
    for (; most > 0 && !names_[kind].empty(); --most) remove(static_cast<PubSub::Kind>(kind), std::string(*names_[kind].begin()));
  }
  return empty();
}

std::size_t Subscriptions::count(PubSub::Kind kind) const {
  if (kind == PubSub::Kind::kShard) return names(kind).size();
  return names(PubSub::Kind::kChannel).size() + names(PubSub::Kind::kPattern).size();
}

bool Subscriptions::empty() const {
  return std::all_of(std::begin(names_), std::end(names_), [](const auto& names) { return names.empty(); });
}

}  // namespace ebbtide
