// Small floating-point types in MLIR bytecode.
//
// Newer MLIR has a number for each of f8E4M3FN, f4E2M1FN and their like in bytecode; older MLIR, such as this XLA's, writes and reads
// them as text. StableHLO's promise of reading newer programs does not cover it: in a program with shardings, the operands of
// Shardy's operations have types of MLIR's own, which no version of StableHLO stands for. So the numbers are replaced by the text
// that both understand.
//
// Invariants:
//  1. Only a module's two sections of types change, and the padding of sections that are aligned. Types keep their places in the
//     table, so whatever refers to them stays as it is.
//  2. What is not bytecode, or not well-formed, or has no such type, is left to the parser as it came: nullopt, and nothing is copied.
//  3. Bytes come from clients. None outside `module` is read, and the work is linear in its size.
// Pure; sees the standard library alone.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace pw::pjrt_cpu {

// The module with such types as text, if it has any.
std::optional<std::string> WithSmallFloatsAsText(std::string_view module);

}  // namespace pw::pjrt_cpu
