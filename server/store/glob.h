// Redis's glob patterns: * ? [abc] [^a-z] and \ to quote.
//
// Redis's own matcher recurses at each star and takes exponential time on patterns like a*a*a*a*b. This one backtracks to the
// latest star only, without recursion, so the time is at most pattern x text. Backtracking to an earlier star cannot help, since
// the text between two stars was matched at its leftmost place.
#pragma once

#include <string>

#include <engine/bytes.h>

namespace ebbtide {

/// True if the whole `text` matches `pattern`. Byte-wise; `ignore_case` folds ASCII letters. An unclosed bracket ends with the
/// pattern, as in Redis; a backslash at the end stands for itself.
bool glob_match(Bytes pattern, Bytes text, bool ignore_case = false);

/// The longest literal text that every match starts with, quotes taken out: "user:1" of "user:1*", "a*b" of "a\\*b[cd]".
std::string glob_literal_prefix(Bytes pattern);
/// True if the pattern matches exactly one text, its glob_literal_prefix().
bool glob_is_literal(Bytes pattern);

}  // namespace ebbtide
