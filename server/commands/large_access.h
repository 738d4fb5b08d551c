// Reads and changes parts of large collections for commands (store/collection/large.h).
//
// A command reads the elements that it needs into the form of a small collection, and changes that. Put functions then write the
// difference. So the same code serves small and large collections, and its work does not grow with the size of a large
// collection.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dispatch/context.h"
#include "store/collections.h"

namespace ebbtide {

/// The elements that a command needs of a large collection. A small collection is always read as a whole.
struct Wanted {
  bool all = true;
  /// If not `all`: the elements named by the command's arguments `first`, `first` + `step` ... before `end`.
  std::size_t first = 0, step = 1, end = ~std::size_t{0};

  /// Wants the element that argument `i` names.
  static Wanted one(std::size_t i) { return {.all = false, .first = i, .step = 1, .end = i + 1}; }
  /// Wants the elements that every `step`-th argument from `i` on names.
  static Wanted from(std::size_t i, std::size_t step = 1) { return {.all = false, .first = i, .step = step}; }
};

/// Returns true if the entry is the header of a large collection.
inline bool is_large(const std::optional<Found>& found) { return found && found->kind == EntryKind::kHeader; }

/// Replaces the value of a located header by the wanted elements, in the form of a small collection. Found::header keeps the
/// header itself. WRONGTYPE if the collection is of another type. kNotResident if pages are missing, or if the command must leave
/// its loop. It must if it wants all elements, or more than a loop should look up.
Status load_elements(Ctx& ctx, CollectionType type, const Wanted& wanted, Found* found);
/// Like load_elements(), for one element of a sorted set, hash or set, by a name that is not among the arguments.
Status load_element(Ctx& ctx, CollectionType type, Bytes name, Found* found);
/// Loads the elements with the indexes `places`, in the order of replies. The indexes must ascend and be below the header's
/// count. Visits all elements before the last of them; for one index, the elements between it and the nearer end.
Status load_places(Ctx& ctx, CollectionType type, std::span<const std::size_t> places, Found* found);
/// Like load_elements(), for elements [begin, end) of a list, in order. The list must have these elements.
Status load_list_range(Ctx& ctx, std::uint64_t begin, std::uint64_t end, Found* found);
/// Gets the name and the value of an element (store/collection/large.h); for a list, maybe without the name.
using VisitElement = std::function<Status(Bytes name, Bytes value)>;
/// Returns the number of elements that visit_elements() visits; nullopt if it is not known, since fields may have expired.
inline std::optional<std::uint64_t> visited_elements(const Ctx& ctx, const LargeHeader& header) {
  return header.counts_expired(ctx.view.now()) ? std::nullopt : std::optional(header.count);
}
/// Visits all elements of a located large collection in the order of replies. Unlike load_elements() it copies nothing, so a long
/// reply is written straight from them. Fails, also in the middle, with the errors of load_elements().
Status visit_elements(Ctx& ctx, const Found& found, const LargeHeader& header, const VisitElement& visit);
/// Like visit_elements(), for elements [begin, end) of a list, which must have them.
Status visit_list_range(Ctx& ctx, std::uint64_t begin, std::uint64_t end, const Found& found, const VisitElement& visit);
/// Loads about `count` elements, at most kMostScanned, from the position that `resume` names; "" is the beginning. Sets `*rest`
/// to the position of the next element, if there may be one. Loads fewer elements, or none, if it would have to skip many dead
/// ones. A position that belongs to another collection is an error.
Status load_scan_part(Ctx& ctx, CollectionType type, Bytes resume, std::uint64_t count, Found* found,
                      std::optional<std::string>* rest);
/// Returns the encoding that Redis would use for a located large collection. If that may be a packed encoding, reads all
/// elements.
Result<Bytes> encoding_of_large(Ctx& ctx, const Found& found);
/// Returns the header of a loaded or located large collection.
Result<LargeHeader> header_of(const Found& found);

/// Write the difference between the loaded elements of a large collection and `after`, which has the elements after the change.
Status put_changes(Ctx& ctx, const LookupKey& key, const Found& old, const Hash& after, Change change);
Status put_changes(Ctx& ctx, const LookupKey& key, const Found& old, const SortedSet& after, Change change);
/// Like put_changes() of a hash, for a set, or for a list of which all elements were loaded.
Status put_changes(Ctx& ctx, const LookupKey& key, const Found& old, CollectionType type, const std::vector<Bytes>& after,
                   Change change);

/// Write a collection that has become too large for one entry. `old` is a small collection of the same type, or nullopt.
Status grow_large(Ctx& ctx, const LookupKey& key, const std::optional<Found>& old, const Hash& hash);
Status grow_large(Ctx& ctx, const LookupKey& key, const std::optional<Found>& old, const SortedSet& members);
/// Like grow_large() of a hash, for a set or list.
Status grow_large(Ctx& ctx, const LookupKey& key, const std::optional<Found>& old, CollectionType type,
                  const std::vector<Bytes>& items);
/// Sets the key, in the database of `view`, to the collection with these bytes, of any size. It replaces an entry of any type.
/// `options`: expiry and stamp.
Status replace_collection(Ctx& ctx, const ReadView& view, const LookupKey& key, const std::optional<Found>& old,
                          std::string value, const WriteBatch::PutOptions& options);

// --- the ends of a large list
enum class ListEnd : std::uint8_t { kHead, kTail };
/// Adds elements at one end of a list, in the order in which they are pushed. Returns the number of elements afterwards.
Result<std::uint64_t> push_large(Ctx& ctx, const LookupKey& key, const Found& old, std::span<const Bytes> elements, ListEnd end);
/// Loads up to `count` elements from one end of a list, in the order of the list. Sets Found like load_elements().
Status load_list_end(Ctx& ctx, ListEnd end, std::uint64_t count, Found* found);
/// Removes elements from both ends of a list. If no element remains, deletes the list.
Status trim_large(Ctx& ctx, const LookupKey& key, const Found& old, std::uint64_t from_head, std::uint64_t from_tail);
/// Moves the element at the end `from`, which was loaded, to the other end.
Status rotate_large(Ctx& ctx, const LookupKey& key, const Found& old, Bytes element, ListEnd from);
/// Replaces the value of the element with index `place`.
Status set_large(Ctx& ctx, const LookupKey& key, const Found& old, std::uint64_t place, Bytes value);

}  // namespace ebbtide
