// Early return on errors. Our functions report failure by absl::Status; exceptions never cross our code.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define PW_CONCAT_INNER_(a, b) a##b
#define PW_CONCAT_(a, b) PW_CONCAT_INNER_(a, b)

#define PW_RETURN_IF_ERROR(expr)                                               \
  do {                                                                         \
    if (absl::Status pw_status_ = (expr); !pw_status_.ok()) return pw_status_; \
  } while (false)

// PW_ASSIGN_OR_RETURN(auto x, MakeX());
#define PW_ASSIGN_OR_RETURN(lhs, expr) PW_ASSIGN_OR_RETURN_(PW_CONCAT_(pw_or_, __LINE__), lhs, expr)
#define PW_ASSIGN_OR_RETURN_(tmp, lhs, expr) \
  auto tmp = (expr);                         \
  if (!tmp.ok()) return tmp.status();        \
  lhs = std::move(tmp).value()
