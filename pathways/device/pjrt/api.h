// Api: the PJRT C API of one plugin, loaded by path. Thin wrappers turn its errors into absl::Status.
//
// Only this folder includes the C API's headers. The API is a table of functions ("entries"). An entry takes one struct of
// arguments that begins with its own size. PW_PJRT_ARGS declares one. `Api::Call` calls an entry and converts its error to a
// status.
//
//   PW_PJRT_ARGS(args, PJRT_Buffer_ReadyEvent_Args);
//   args.buffer = buffer;
//   absl::Status status = api.Call(&PJRT_Api::PJRT_Buffer_ReadyEvent, &args);
//
// Invariants:
//   PA-1  a loaded plugin stays loaded for the life of the process: device threads may still run its code
//   PA-2  an entry that an older plugin lacks is never called: Call returns UNIMPLEMENTED
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
// Declares a struct of arguments of this type.
#define PW_PJRT_ARGS(name, type) type name = ::pw::device::pjrt::MakeArgs<type>(type##_STRUCT_SIZE)

class Api {
 public:
  // NOT_FOUND: no such file. INVALID_ARGUMENT: not a PJRT plugin. FAILED_PRECONDITION: it does not load, is of an unsupported version, or
  // is broken.
  static absl::StatusOr<std::shared_ptr<const Api>> Load(const std::string& path);

  // Gives access to the table itself.
  const PJRT_Api* operator->() const { return api_; }
  const std::string& path() const { return path_; }

  // Returns whether the plugin has this entry: its table is new enough to contain it, and the entry is set.
  template <class Fn>
  bool Has(Fn* PJRT_Api::* entry) const {
    const auto offset = reinterpret_cast<const char*>(&(api_->*entry)) - reinterpret_cast<const char*>(api_);
    return static_cast<size_t>(offset) + sizeof(Fn*) <= api_->struct_size && api_->*entry != nullptr;
  }

  // Calls an entry that returns an error.
  template <class Fn, class Args>
  absl::Status Call(Fn* PJRT_Api::* entry, Args* args) const {
    const auto offset = reinterpret_cast<const char*>(&(api_->*entry)) - reinterpret_cast<const char*>(api_);
    if (static_cast<size_t>(offset) + sizeof(Fn*) > api_->struct_size || api_->*entry == nullptr) {
      return absl::UnimplementedError(
          absl::StrCat("the device plugin ", path_, " lacks an entry of the PJRT C API that this needs"));
    }
    return TakeError((api_->*entry)(args));
  }

  // Converts an error to a status and frees it.
  absl::Status TakeError(PJRT_Error* error) const;

  // Returns null if the plugin lacks the extension.
  const PJRT_Extension_Base* FindExtension(PJRT_Extension_Type type) const;
  // Returns an exported symbol beyond the PJRT API, or null.
  void* FindSymbol(const char* name) const;

 private:
  Api(std::string path, void* library, const PJRT_Api* api) : path_(std::move(path)), library_(library), api_(api) {}
  absl::Status Check() const;

  const std::string path_;
  void* const library_;
  const PJRT_Api* const api_;
};

}  // namespace pw::device::pjrt
