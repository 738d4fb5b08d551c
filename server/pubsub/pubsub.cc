#include "pubsub/pubsub.h"

#include <algorithm>
#include <numeric>

#include "resp/reply.h"

namespace ebbtide {

void PubSub::add(Kind kind, const std::string& name, Subscriber subscriber) {
  std::unique_lock lock(mutex_);
  std::vector<Subscriber>& subscribers = names_[static_cast<std::size_t>(kind)].part_of(name)[name];
  if (kind == Kind::kPattern && subscribers.empty()) pattern_weight_.fetch_add(weight_of(name), std::memory_order_relaxed);
  subscribers.push_back(subscriber);
  if (hears_keyspace(kind, name)) keyspace_listeners_.fetch_add(1, std::memory_order_relaxed);
}

void PubSub::remove(Kind kind, const std::string& name, Subscriber subscriber) {
  std::unique_lock lock(mutex_);
  Names::Part& names = names_[static_cast<std::size_t>(kind)].part_of(name);
  const auto it = names.find(name);
  if (it == names.end()) return;
  const std::size_t removed = std::erase(it->second, subscriber);
  if (hears_keyspace(kind, name)) keyspace_listeners_.fetch_sub(removed, std::memory_order_relaxed);
  if (!it->second.empty()) return;
  if (kind == Kind::kPattern) pattern_weight_.fetch_sub(weight_of(name), std::memory_order_relaxed);
  names.erase(it);
}

void PubSub::Audience::add(const Subscriber& subscriber, bool has_pattern, const std::string& pattern) {
  ++size_;
  auto it = std::find_if(loops_.begin(), loops_.end(), [&](const auto& entry) { return entry.first == subscriber.loop; });
  if (it == loops_.end()) it = loops_.insert(loops_.end(), {subscriber.loop, {}});
  it->second.push_back({subscriber.client_id, has_pattern, pattern});
}

PubSub::Audience PubSub::audience(Kind kind, Bytes channel) const {
  Audience out;
  {
    std::shared_lock lock(mutex_);
    const Names::Part& names = of(kind).part_of(channel);
    if (const auto it = names.find(channel); it != names.end()) {
      for (const Subscriber& subscriber : it->second) out.add(subscriber, false, std::string());
    }
  }
  if (kind != Kind::kChannel || pattern_weight_.load(std::memory_order_relaxed) == 0) return out;
  // Few patterns are compared under one lock, many under a lock for each part: who subscribes waits for one part at most.
  const bool few = pattern_weight_.load(std::memory_order_relaxed) <= kFewPatterns;
  std::shared_lock lock(mutex_);
  for (const Names::Part& part : of(Kind::kPattern).parts()) {
    if (!few) {
      lock.unlock();
      lock.lock();
    }
    for (const auto& [pattern, subscribers] : part) {
      if (!matches_(pattern, channel)) continue;
      for (const Subscriber& subscriber : subscribers) out.add(subscriber, true, pattern);
    }
  }
  return out;
}

void PubSub::send(Audience audience, Kind kind, Bytes channel, Bytes text, ClientLoop* here, std::uint64_t seq) {
  if (audience.size() == 0) return;
  const auto message = std::make_shared<const Message>(Message{kind, std::string(channel), std::string(text) + "\r\n", seq});
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

void PubSub::publish(Kind kind, Bytes channel, Bytes text, ClientLoop* here, std::uint64_t seq, Reply* count) {
  Audience reached = audience(kind, channel);
  if (count != nullptr) count->integer(static_cast<std::int64_t>(reached.size()));
  send(std::move(reached), kind, channel, text, here, seq);
}

void PubSub::deliver(ClientLoop& loop, const std::shared_ptr<const Message>& shared, const std::vector<Target>& targets) {
  const Message& message = *shared;
  for (const Target& target : targets) {
    Client* client = loop.find(target.client_id);
    if (client == nullptr) continue;
    client->seen_seq = std::max(client->seen_seq, message.seq);
    Reply reply(&client->out, client->protocol);
    reply.push(target.has_pattern ? 4 : 3);
    reply.bulk(target.has_pattern ? "pmessage" : message.kind == Kind::kShard ? "smessage" : "message");
    if (target.has_pattern) reply.bulk(target.pattern);
    reply.bulk(message.channel);
    message.text().size() < kSharedBytes ? reply.bulk(message.text()) : reply.bulk_message(shared, message.text_and_end);
    client->check_push_limit();
    loop.touch(client);
  }
}

std::vector<std::string> PubSub::names(Kind kind, Bytes pattern) const {
  std::vector<std::string> out;
  for (const Names::Part& part : of(kind).parts()) {
    std::shared_lock lock(mutex_);
    for (const auto& [name, subscribers] : part) {
      if (pattern.empty() || matches_(pattern, name)) out.push_back(name);
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::size_t PubSub::count(Kind kind, Bytes name) const {
  std::shared_lock lock(mutex_);
  const Names::Part& names = of(kind).part_of(name);
  const auto it = names.find(name);
  return it == names.end() ? 0 : it->second.size();
}

std::size_t PubSub::Names::size() const {
  return std::accumulate(parts_.begin(), parts_.end(), std::size_t{0},
                         [](std::size_t sum, const Part& part) { return sum + part.size(); });
}

std::size_t PubSub::size(Kind kind) const {
  std::shared_lock lock(mutex_);
  return of(kind).size();
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
