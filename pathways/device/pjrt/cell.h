// A cell: the place of a PJRT buffer that a queued launch has yet to make.
//
// A plugin's Execute may block (a queue that is full, a program that runs on the caller), and the worker's strand must not. So
// launches run on a thread of their own, in the order of the Execute calls, and whoever holds a result
// meanwhile holds its cell.
//
// Invariants:
//   CE-1  a cell is set once, with a buffer that it owns or with why there is none
//   CE-2  what was asked of a cell before it was set runs inside Set, in the order of asking; later questions are answered at once.
//         So they come before any later launch, which may take the buffer over.
// Any thread.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "pathways/device/pjrt/client.h"

namespace pw::device::pjrt {

class Cell {
 public:
  using Handle = absl::StatusOr<PJRT_Buffer*>;
  using Callback = absl::AnyInvocable<void(const Handle&) &&>;

  explicit Cell(std::shared_ptr<const Client> client) : client_(std::move(client)) {}
  Cell(std::shared_ptr<const Client> client, PJRT_Buffer* handle) : client_(std::move(client)), handle_(handle) {}
  ~Cell();
  Cell(const Cell&) = delete;

  const std::shared_ptr<const Client>& client() const { return client_; }
  void Set(Handle handle);
  bool is_set() const {
    std::lock_guard<std::mutex> lock(mu_);
    return handle_.has_value();
  }
  // REQUIRES: is_set(), or the caller comes after Set by other means
  const Handle& handle() const { return *handle_; }
  void WhenSet(Callback callback);

 private:
  const std::shared_ptr<const Client> client_;
  mutable std::mutex mu_;
  std::optional<Handle> handle_;   // guarded by mu_ until set, constant afterwards
  std::vector<Callback> waiters_;  // guarded by mu_
};

}  // namespace pw::device::pjrt
