// The PJRT C API of one plugin: loaded by path, called through thin wrappers that speak absl::Status.
//
// Only this folder includes the C API's headers. A PJRT entry takes one struct of arguments that begins with its own size;
// `MakeArgs<T>(size)` makes one, `Api::Call` runs an entry and turns its error into a status.
//
// Invariants:
//   PA-1  a loaded plugin stays loaded for the life of the process: device threads may still run its code
//   PA-2  entries that an older plugin lacks are reported as UNIMPLEMENTED by name, never called
// Any thread.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "xla/pjrt/c/pjrt_c_api.h"

namespace pw::device::pjrt {

template <class Args>
Args MakeArgs(size_t struct_size) {
  Args args{};
  args.struct_size = struct_size;
  return args;
}
// PW_PJRT_ARGS(args, PJRT_Client_Create_Args);
#define PW_PJRT_ARGS(name, type) type name = ::pw::device::pjrt::MakeArgs<type>(type##_STRUCT_SIZE)

class Api {
 public:
  // NOT_FOUND: no such file. INVALID_ARGUMENT: not a PJRT plugin. FAILED_PRECONDITION: a version we do not speak, or broken.
  static absl::StatusOr<std::shared_ptr<const Api>> Load(const std::string& path);

  const PJRT_Api* operator->() const { return api_; }
  const std::string& path() const { return path_; }

  // True if the plugin is new enough to have the entry at this place of the table, and fills it.
  template <class Fn>
  bool Has(Fn* PJRT_Api::* entry) const {
    const auto offset = reinterpret_cast<const char*>(&(api_->*entry)) - reinterpret_cast<const char*>(api_);
    return static_cast<size_t>(offset) + sizeof(Fn*) <= api_->struct_size && api_->*entry != nullptr;
  }

  // Runs an entry that returns an error.
  template <class Fn, class Args>
  absl::Status Call(Fn* PJRT_Api::* entry, Args* args) const {
    const auto offset = reinterpret_cast<const char*>(&(api_->*entry)) - reinterpret_cast<const char*>(api_);
    if (static_cast<size_t>(offset) + sizeof(Fn*) > api_->struct_size || api_->*entry == nullptr) {
      return absl::UnimplementedError(
          absl::StrCat("the device plugin ", path_, " lacks an entry of the PJRT C API that this needs"));
    }
    return TakeError((api_->*entry)(args));
  }

  // Frees the error.
  absl::Status TakeError(PJRT_Error* error) const;

  // Null if the plugin does not have it.
  const PJRT_Extension_Base* FindExtension(PJRT_Extension_Type type) const;
  // An exported symbol beyond the PJRT API; null if there is none.
  void* FindSymbol(const char* name) const;

 private:
  Api(std::string path, void* library, const PJRT_Api* api) : path_(std::move(path)), library_(library), api_(api) {}
  absl::Status Check() const;

  const std::string path_;
  void* const library_;
  const PJRT_Api* const api_;
};

}  // namespace pw::device::pjrt
