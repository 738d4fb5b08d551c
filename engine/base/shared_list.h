// A list whose copies share most of their memory: a vector of chunks of at most 256 items.
//
//   list      [ chunk 0 | chunk 1 | chunk 2 | ... ]        a copy of the list has the same chunks
//   chunk     up to 256 items, and their sums
//
// A copy costs one reference per chunk. A change of a chunk copies the chunk if another list has it, too. So a version of a tree
// with n files is copied in n / 256 steps, and a change of one file copies 256 pointers. Two versions that differ by one edit
// differ in a few chunks. So callers can cache data computed from a chunk, with the chunk's address as key.
//
// `Sums` is data that is computed from the items of a chunk: minima, totals, an index. It must be default-constructible and have
//   static Sums of(std::span<const T> items);
// A change of an item makes the sums of its chunk unknown, until seal() computes them again. Until then sums_of() computes them
// on each call.
//
// A B+ tree was tried and dropped: a third level would pay only from millions of items on, and every user visits all chunks
// anyway.
//
// Thread safety is as for std::vector. Different lists may share chunks: a list changes only chunks that no other list has.
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace ebbtide {

/// For lists without sums.
struct NoSums {
  template <typename Items>
  static NoSums of(const Items& /*items*/) {
    return {};
  }
};

template <typename T, typename Sums = NoSums>
class SharedList {
 public:
  static constexpr std::size_t kMostItems = 256;  ///< most items of a chunk; a full chunk is divided into halves

  struct Chunk {
    std::vector<T> items;
    Sums sums{};
    bool sealed = false;  ///< true if `sums` are the sums of the present `items`
  };
  using ChunkPtr = std::shared_ptr<const Chunk>;

  /// Walks over the items with random access. As with vectors, a change of the list invalidates its iterators.
  class const_iterator {
   public:
    using iterator_category = std::random_access_iterator_tag;
    using value_type = T;
    using difference_type = std::ptrdiff_t;
    using pointer = const T*;
    using reference = const T&;

    const_iterator() = default;
    reference operator*() const { return list_->chunks_[chunk_]->items[at_]; }
    pointer operator->() const { return &**this; }
    reference operator[](difference_type n) const { return *(*this + n); }
    const_iterator& operator++() {
      if (++at_ == list_->chunks_[chunk_]->items.size()) ++chunk_, at_ = 0;
      return *this;
    }
    const_iterator operator++(int) {
      const_iterator before = *this;
      ++*this;
      return before;
    }
    const_iterator& operator--() {
      if (at_ == 0) at_ = list_->chunks_[--chunk_]->items.size();
      --at_;
      return *this;
    }
    const_iterator operator--(int) {
      const_iterator before = *this;
      --*this;
      return before;
    }
    const_iterator& operator+=(difference_type n) {
      return *this = list_->iterator_at(static_cast<std::size_t>(static_cast<difference_type>(index()) + n));
    }
    const_iterator& operator-=(difference_type n) { return *this += -n; }
    friend const_iterator operator+(const_iterator it, difference_type n) { return it += n; }
    friend const_iterator operator+(difference_type n, const_iterator it) { return it += n; }
    friend const_iterator operator-(const_iterator it, difference_type n) { return it -= n; }
    friend difference_type operator-(const const_iterator& a, const const_iterator& b) {
      return static_cast<difference_type>(a.index()) - static_cast<difference_type>(b.index());
    }
    friend bool operator==(const const_iterator& a, const const_iterator& b) { return a.chunk_ == b.chunk_ && a.at_ == b.at_; }
    friend std::strong_ordering operator<=>(const const_iterator& a, const const_iterator& b) {
      return a.chunk_ != b.chunk_ ? a.chunk_ <=> b.chunk_ : a.at_ <=> b.at_;
    }

   private:
    friend class SharedList;
    const_iterator(const SharedList* list, std::size_t chunk, std::size_t at) : list_(list), chunk_(chunk), at_(at) {}
    [[nodiscard]] std::size_t index() const { return list_->start_of(chunk_) + at_; }
    const SharedList* list_ = nullptr;
    std::size_t chunk_ = 0, at_ = 0;
  };
  using iterator = const_iterator;
  using value_type = T;
  using size_type = std::size_t;
  using difference_type = std::ptrdiff_t;
  using const_reference = const T&;
  using reference = const T&;

  SharedList() = default;
  SharedList(std::initializer_list<T> items) : SharedList(std::vector<T>(items)) {}
  SharedList(std::vector<T> items) {  // NOLINT(google-explicit-constructor): a vector is a list
    for (std::size_t from = 0; from < items.size(); from += kMostItems) {
      auto chunk = std::make_shared<Chunk>();
      const std::size_t to = std::min(items.size(), from + kMostItems);
      chunk->items.assign(std::make_move_iterator(items.begin() + static_cast<std::ptrdiff_t>(from)),
                          std::make_move_iterator(items.begin() + static_cast<std::ptrdiff_t>(to)));
      chunks_.push_back(std::move(chunk));
    }
    count_from(0);
  }

  [[nodiscard]] std::size_t size() const { return ends_.empty() ? 0 : ends_.back(); }
  [[nodiscard]] bool empty() const { return chunks_.empty(); }
  [[nodiscard]] const_iterator begin() const { return {this, 0, 0}; }
  [[nodiscard]] const_iterator end() const { return {this, chunks_.size(), 0}; }
  [[nodiscard]] const T& front() const { return chunks_.front()->items.front(); }
  [[nodiscard]] const T& back() const { return chunks_.back()->items.back(); }
  /// Returns item i. O(log n).
  [[nodiscard]] const T& operator[](std::size_t i) const { return *iterator_at(i); }

  /// Returns the first item for which `before` is false, like std::partition_point. Calls `before` O(log n) times.
  template <typename Before>
  [[nodiscard]] const_iterator partition_point(Before before) const {
    const auto chunk =
        std::partition_point(chunks_.begin(), chunks_.end(), [&](const auto& c) { return before(c->items.back()); });
    if (chunk == chunks_.end()) return end();
    const auto at = std::partition_point((*chunk)->items.begin(), (*chunk)->items.end(), before);
    return {this, static_cast<std::size_t>(chunk - chunks_.begin()), static_cast<std::size_t>(at - (*chunk)->items.begin())};
  }

  // --- chunks
  [[nodiscard]] std::size_t chunks() const { return chunks_.size(); }
  [[nodiscard]] ChunkPtr chunk(std::size_t i) const { return chunks_[i]; }
  [[nodiscard]] const Chunk& at_chunk(std::size_t i) const { return *chunks_[i]; }
  /// Returns the number of items before the chunk.
  [[nodiscard]] std::size_t start_of(std::size_t chunk) const { return chunk == 0 ? 0 : ends_[chunk - 1]; }
  [[nodiscard]] const_iterator begin_of(std::size_t chunk) const { return {this, chunk, 0}; }
  /// Returns the sums of a chunk; computes them if the chunk is not sealed.
  [[nodiscard]] static Sums sums_of(const Chunk& chunk) {
    return chunk.sealed ? chunk.sums : Sums::of(std::span<const T>(chunk.items));
  }
  /// Calls `visit` with the sums of each chunk.
  template <typename Visit>
  void for_each_sums(Visit visit) const {
    for (const auto& chunk : chunks_) {
      if (chunk->sealed) {
        visit(chunk->sums);
      } else {
        visit(Sums::of(std::span<const T>(chunk->items)));
      }
    }
  }
  /// Computes the sums of all changed chunks.
  void seal() {
    for (auto& chunk : chunks_) {
      if (chunk->sealed) continue;
      Chunk& mine = own(&chunk);
      mine.sums = Sums::of(std::span<const T>(mine.items));
      mine.sealed = true;
    }
  }
  /// Computes the sums of all chunks again. Call it if the sums depend on other data than the items, and that data has changed.
  void reseal() {
    for (auto& chunk : chunks_) own(&chunk).sealed = false;
    seal();
  }
  /// Appends a chunk of another list, or a chunk that was made for this list. The chunk must not be empty.
  void push_chunk(ChunkPtr chunk) {
    ends_.push_back(size() + chunk->items.size());
    chunks_.push_back(std::const_pointer_cast<Chunk>(std::move(chunk)));
  }

  // --- changes
  void push_back(T item) {
    if (chunks_.empty() || chunks_.back()->items.size() >= kMostItems) {
      chunks_.push_back(std::make_shared<Chunk>());
      ends_.push_back(size());
    }
    change(chunks_.size() - 1).items.push_back(std::move(item));
    ++ends_.back();
  }
  template <typename... Args>
  T& emplace_back(Args&&... args) {
    push_back(T(std::forward<Args>(args)...));
    return chunks_.back()->items.back();
  }
  void insert(const_iterator before, T item) {
    if (before.chunk_ == chunks_.size()) {
      if (chunks_.empty() || chunks_.back()->items.size() >= kMostItems) return push_back(std::move(item));
      before = {this, chunks_.size() - 1, chunks_.back()->items.size()};
    }
    std::vector<T>& items = change(before.chunk_).items;
    items.insert(items.begin() + static_cast<std::ptrdiff_t>(before.at_), std::move(item));
    if (items.size() > kMostItems) split(before.chunk_);
    count_from(before.chunk_);
  }
  void erase(const_iterator at) {
    std::vector<T>& items = change(at.chunk_).items;
    items.erase(items.begin() + static_cast<std::ptrdiff_t>(at.at_));
    if (items.size() < kMostItems / 4) join(at.chunk_);
    count_from(std::min(at.chunk_, at.chunk_ == 0 ? 0 : at.chunk_ - 1));
  }
  void replace(const_iterator at, T item) { change(at.chunk_).items[at.at_] = std::move(item); }
  /// Returns a reference through which item i can be changed. It is valid until the list is copied or changed again.
  T& edit(std::size_t i) {
    const const_iterator at = iterator_at(i);
    return change(at.chunk_).items[at.at_];
  }
  /// Removes the items for which `gone` is true. Returns their number.
  template <typename Gone>
  std::size_t erase_if(Gone gone) {
    const std::size_t before = size();
    for (auto& chunk : chunks_) {
      if (std::none_of(chunk->items.begin(), chunk->items.end(), gone)) continue;
      Chunk& mine = own(&chunk);
      mine.sealed = false;
      std::erase_if(mine.items, gone);
    }
    std::erase_if(chunks_, [](const auto& chunk) { return chunk->items.empty(); });
    count_from(0);
    return before - size();
  }
  void clear() {
    chunks_.clear();
    ends_.clear();
  }

  bool operator==(const SharedList& other) const {
    return size() == other.size() && (chunks_ == other.chunks_ || std::equal(begin(), end(), other.begin()));
  }

 private:
  friend class const_iterator;
  [[nodiscard]] const_iterator iterator_at(std::size_t i) const {
    if (chunks_.size() == 1 && i < ends_[0]) return {this, 0, i};
    const auto chunk = static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), i) - ends_.begin());
    return {this, chunk, i - start_of(chunk)};
  }
  /// Returns a chunk that only this list has. If another list shares `*chunk`, replaces it by a copy first.
  static Chunk& own(std::shared_ptr<Chunk>* chunk) {
    if (chunk->use_count() != 1) {
      auto copy = std::make_shared<Chunk>();
      copy->items.reserve((*chunk)->items.size() + 1);
      copy->items = (*chunk)->items;
      *chunk = std::move(copy);
    } else {
      // Another thread may have read the chunk before it dropped its reference. These reads must be ordered before the changes
      // that follow. use_count() does not do that, since it is a relaxed load. Dropping one more reference does, since it
      // decrements the count in acquire and release order. An acquire fence would do, too, but the thread sanitizer does not
      // see fences.
      std::shared_ptr<Chunk>(*chunk).reset();
    }
    return **chunk;
  }
  Chunk& change(std::size_t chunk) {
    Chunk& mine = own(&chunks_[chunk]);
    mine.sealed = false;
    return mine;
  }
  void split(std::size_t chunk) {
    std::vector<T>& items = chunks_[chunk]->items;
    auto right = std::make_shared<Chunk>();
    const auto middle = items.begin() + static_cast<std::ptrdiff_t>(items.size() / 2);
    right->items.assign(std::make_move_iterator(middle), std::make_move_iterator(items.end()));
    items.erase(middle, items.end());
    chunks_.insert(chunks_.begin() + static_cast<std::ptrdiff_t>(chunk) + 1, std::move(right));
  }
  /// Joins a small chunk with an adjacent one if both fit into three quarters of a chunk.
  void join(std::size_t chunk) {
    const auto at = [&](std::size_t i) { return chunks_.begin() + static_cast<std::ptrdiff_t>(i); };
    if (chunks_[chunk]->items.empty()) {
      chunks_.erase(at(chunk));
      return;
    }
    for (const std::size_t left : {chunk, chunk - 1}) {
      if (left + 1 >= chunks_.size() || left > chunk) continue;
      if (chunks_[left]->items.size() + chunks_[left + 1]->items.size() > kMostItems * 3 / 4) continue;
      std::vector<T>& into = change(left).items;
      const std::vector<T>& from = chunks_[left + 1]->items;
      into.insert(into.end(), from.begin(), from.end());
      chunks_.erase(at(left + 1));
      return;
    }
  }
  void count_from(std::size_t chunk) {
    ends_.resize(chunks_.size());
    for (; chunk < chunks_.size(); ++chunk) ends_[chunk] = start_of(chunk) + chunks_[chunk]->items.size();
  }

  std::vector<std::shared_ptr<Chunk>> chunks_;  // no chunk is empty
  std::vector<std::size_t> ends_;               // for each chunk, the number of items up to its end
};

}  // namespace ebbtide
