// Arguments of commands that take a merge policy with its parameters, for COMMAND DOCS.
#pragma once

#include "dispatch/spec.h"

namespace ebbtide {

inline constexpr ArgDoc kPolicyParameterArguments[] = {
    {.name = "parameter"},
    {.name = "value", .type = ArgDoc::Type::kDouble},
};
/// Pairs of a parameter's name and its value.
inline constexpr ArgDoc kPolicyParameters = {.name = "parameters",
                                             .type = ArgDoc::Type::kBlock,
                                             .flags = ArgDoc::kOptional | ArgDoc::kMultiple,
                                             .arguments = kPolicyParameterArguments};
inline constexpr ArgDoc kPolicyWithParameters[] = {{.name = "policy"}, kPolicyParameters};
/// The option POLICY of an index.
inline constexpr ArgDoc kPolicyOption = {.name = "policy",
                                         .type = ArgDoc::Type::kBlock,
                                         .token = "POLICY",
                                         .flags = ArgDoc::kOptional,
                                         .arguments = kPolicyWithParameters};

}  // namespace ebbtide
