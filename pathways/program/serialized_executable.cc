#include "pathways/program/serialized_executable.h"

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "pathways/base/sha256.h"
#include "pathways/v1/program.pb.h"

namespace pw::program {
namespace {

constexpr absl::string_view kFamily = "pathways-executable-", kMagic = "pathways-executable-1\n";
constexpr size_t kChecksumBytes = 32;
constexpr size_t kHead = kMagic.size() + kChecksumBytes;
constexpr size_t kMostBytes = size_t{1} << 30;  // half of what protobuf can hold

absl::Status NotOurs(absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("this is not an executable that Pathways serialized: ", why, ". Compile the program again"));
}

}  // namespace

absl::StatusOr<std::string> SerializeExecutable(absl::string_view platform_name, absl::string_view platform_version,
                                                absl::string_view module, absl::string_view options) {
  if (module.size() > kMostBytes || options.size() > kMostBytes - module.size()) {
    return absl::ResourceExhaustedError(absl::StrCat("an executable of ", module.size(), " bytes, with options of ",
                                                     options.size(), ", cannot be serialized: the limit is ", kMostBytes));
  }
  ::pathways::v1::SerializedExecutable proto;
  proto.set_platform_name(std::string(platform_name));
  proto.set_platform_version(std::string(platform_version));
  proto.set_module(module.data(), module.size());
  proto.set_options(options.data(), options.size());
  const std::string contents = proto.SerializeAsString();
  return absl::StrCat(kMagic, Sha256(contents), contents);
}

absl::StatusOr<SerializedExecutable> ParseExecutable(absl::string_view bytes) {
  if (!absl::StartsWith(bytes, kFamily)) return NotOurs("it begins with other bytes");
  if (!absl::StartsWith(bytes, kMagic)) {
    return absl::FailedPreconditionError(
        "another version of Pathways serialized this executable, in a form that this one does not read. Compile the program "
        "again");
  }
  if (bytes.size() < kHead || bytes.size() - kHead > 2 * kMostBytes - 1) return NotOurs("its size is not possible");
  const absl::string_view contents = bytes.substr(kHead);
  if (bytes.substr(kMagic.size(), kChecksumBytes) != Sha256({contents.data(), contents.size()}))
    return NotOurs("bytes of it were changed or are missing");
  ::pathways::v1::SerializedExecutable proto;
  if (!proto.ParseFromArray(contents.data(), static_cast<int>(contents.size()))) return NotOurs("its contents cannot be read");
  SerializedExecutable result;
  result.platform_name = std::move(*proto.mutable_platform_name());
  result.platform_version = std::move(*proto.mutable_platform_version());
  result.module = std::move(*proto.mutable_module());
  result.options = std::move(*proto.mutable_options());
  return result;
}

}  // namespace pw::program
