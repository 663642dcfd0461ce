#include "pathways/storage/place.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "pathways/base/status_macros.h"
#include "pathways/storage/object_save.h"
#include "pathways/storage/staged_save.h"

namespace pw::storage {
namespace {

constexpr int64_t kMetadataLimit = 1 << 20;
constexpr size_t kMostKey = 512;  // of a location: stores take 1024 bytes, and names of arrays follow

// Parses the description of an array at `path`.
absl::StatusOr<ZarrArray> Described(const absl::StatusOr<Bytes>& metadata, const NamedArray& wanted, const std::string& path) {
  PW_RETURN_IF_ERROR(metadata.status());
  PW_ASSIGN_OR_RETURN(ZarrArray stored, ParseZarrMetadata({metadata->view().data(), metadata->view().size()}));
  if (stored.dtype == wanted.array.dtype && stored.dims == wanted.array.dims) return stored;
  return absl::InvalidArgumentError(absl::StrCat("the array at ", path, " has another type or shape than the request"));
}

class FolderPlace final : public Place {
 public:
  explicit FolderPlace(Folder folder) : folder_(std::move(folder)) {}

  std::shared_ptr<const ArraySave> Save(const std::string& id) const override {
    return std::make_shared<const StagedSave>(folder_, id);
  }
  absl::StatusOr<ZarrArray> Open(const NamedArray& wanted) const override {
    PW_RETURN_IF_ERROR(StagedSave::Complete(folder_));
    const Folder folder = folder_ / wanted.name;
    absl::StatusOr<Bytes> metadata = ReadWholeFile(folder, kZarrMetadataFile, kMetadataLimit);
    if (absl::IsNotFound(metadata.status())) {
      metadata = absl::NotFoundError(
          absl::StrCat(metadata.status().message(),
                       ". If other hosts have it, they do not share this file system: mount one file system there on all hosts"));
    }
    return Described(metadata, wanted, folder.path().string());
  }
  absl::StatusOr<Bytes> Read(const NamedArray& array, const buffers::Region& region) const override {
    return ReadZarrRegion(folder_ / array.name, array.array, region);
  }

 private:
  const Folder folder_;
};

class ObjectPlace final : public Place {
 public:
  explicit ObjectPlace(ObjectLocation location) : location_(std::move(location)) {}

  std::shared_ptr<const ArraySave> Save(const std::string& id) const override {
    return std::make_shared<const ObjectSave>(location_, id);
  }
  absl::StatusOr<ZarrArray> Open(const NamedArray& wanted) const override {
    PW_RETURN_IF_ERROR(ObjectSave::Complete(location_));
    const ObjectName name = location_ / absl::StrCat(wanted.name, "/", kZarrMetadataFile);
    return Described(location_.store->Get(name, kMetadataLimit), wanted, location_.store->Display(location_ / wanted.name));
  }
  absl::StatusOr<Bytes> Read(const NamedArray& array, const buffers::Region& region) const override {
    const OpenChunk open = [this, &array](const std::string& file, int64_t bytes) -> absl::StatusOr<ReadChunk> {
      return [this, name = location_ / absl::StrCat(array.name, "/", file), bytes](int64_t offset, absl::Span<uint8_t> out) {
        return location_.store->Read(name, bytes, offset, out);
      };
    };
    return ReadZarrRegion(open, array.array, region);
  }

 private:
  const ObjectLocation location_;
};

// Parses "BUCKET/KEY". A slash at the end does not count.
absl::StatusOr<ObjectName> ParseName(absl::string_view text) {
  text = absl::StripSuffix(text, "/");
  const size_t slash = std::min(text.find('/'), text.size());
  ObjectName name{std::string(text.substr(0, slash)), std::string(text.substr(std::min(slash + 1, text.size())))};
  const bool bucket =
      name.bucket.size() >= 3 && name.bucket.size() <= 63 && std::all_of(name.bucket.begin(), name.bucket.end(), [](char c) {
        return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '-' || c == '.' || c == '_';
      });
  const bool key =
      name.key.size() <= kMostKey && !HasDots(std::filesystem::path(name.key)) && !absl::StrContains(name.key, "//") &&
      !absl::StartsWith(name.key, "/") && !absl::EndsWith(name.key, "/") &&
      std::none_of(name.key.begin(), name.key.end(), [](char c) { return absl::ascii_iscntrl(static_cast<unsigned char>(c)); });
  if (bucket && key && !HasDots(std::filesystem::path(name.bucket))) return name;
  return absl::InvalidArgumentError("");
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Place>> Places::Resolve(const std::string& location, const std::string& user) const {
  const size_t scheme = location.find("://");
  const auto found = scheme == std::string::npos ? stores_.by_scheme.end() : stores_.by_scheme.find(location.substr(0, scheme));
  if (found == stores_.by_scheme.end()) {
    PW_ASSIGN_OR_RETURN(Folder folder, roots_.Resolve(location, user));
    return std::make_shared<const FolderPlace>(std::move(folder));
  }
  const absl::StatusOr<ObjectName> name = ParseName(location.substr(scheme + 3));
  if (!name.ok()) return absl::InvalidArgumentError(absl::StrCat("the location '", location, "' is not SCHEME://BUCKET/OBJECT"));
  PW_RETURN_IF_ERROR(CheckUser(user));
  const std::string own(absl::StripSuffix(absl::StrReplaceAll(stores_.users_below, {{"{user}", user}}), "/"));
  const std::string whole = absl::StrCat(absl::StripSuffix(location, "/"), "/");
  if (user.empty() || (!own.empty() && absl::StartsWith(whole, own + "/")))
    return std::make_shared<const ObjectPlace>(ObjectLocation{found->second, *name});
  return absl::PermissionDeniedError(
      absl::StrCat("user '", user, "' may not use ", location,
                   ", only what the workers' --users-objects names: ", own.empty() ? "nothing" : own));
}

}  // namespace pw::storage
