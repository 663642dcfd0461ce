#include "pathways/bin/object_flags.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "pathways/base/status_macros.h"
#include "pathways/base/threads/clock.h"
#include "pathways/http/client.h"
#include "pathways/identity/token_file.h"
#include "pathways/storage/s3_store.h"

namespace pw {
namespace {

constexpr size_t kMostCredentials = 64 << 10;

absl::StatusOr<storage::S3Credentials> ReadCredentials(const std::string& path, const std::string& scheme) {
  if (path.empty()) return absl::InvalidArgumentError("--object-store needs --object-credentials");
  PW_ASSIGN_OR_RETURN(const std::string text, identity::ReadPrivateFile(path, kMostCredentials));
  absl::StatusOr<storage::S3Credentials> credentials = storage::ParseS3Credentials(text, scheme);
  if (credentials.ok()) return credentials;
  return absl::Status(credentials.status().code(), absl::StrCat(path, ": ", credentials.status().message()));
}

}  // namespace

void DeclareObjects(ObjectFlags* options, Flags* flags) {
  flags->Add("object-store", &options->stores, "SCHEME=URL",
             "a server that speaks Amazon S3's protocol, at http(s)://HOST[:PORT]: what clients save to SCHEME://BUCKET/OBJECT "
             "goes there; default: --object-directory keeps "
             "such arrays");
  flags->Add("object-credentials", &options->credentials, "FILE",
             "the keys for those servers, in the form of Amazon's credentials files, with a section [SCHEME] or [default]; only "
             "its owner may be able "
             "to read it. It is read for each request, so keys can be changed");
  flags->Add("users-objects", &options->users_objects, "SCHEME://BUCKET/PREFIX",
             "where the other users of the cluster may have arrays saved in those servers; {user} in it stands for the user, and "
             "keeps them apart; "
             "default: nowhere");
}

absl::StatusOr<storage::ObjectStores> ObjectStoresFrom(const ObjectFlags& options) {
  static WallClock clock;
  storage::ObjectStores stores;
  stores.users_below = options.users_objects;
  for (const std::string& store : options.stores) {
    const std::pair<std::string, std::string> parts = absl::StrSplit(store, absl::MaxSplits('=', 1));
    const std::string& scheme = parts.first;
    if (scheme.empty() || !std::all_of(scheme.begin(), scheme.end(), absl::ascii_isalnum))
      return absl::InvalidArgumentError(
          absl::StrCat("--object-store ", store, ": it is not SCHEME=URL, such as s3=https://s3.eu-west-1.amazonaws.com"));
    const absl::StatusOr<http::Endpoint> endpoint = http::ParseEndpoint(parts.second);
    if (!endpoint.ok())
      return absl::InvalidArgumentError(absl::StrCat("--object-store ", store, ": ", endpoint.status().message()));
    PW_RETURN_IF_ERROR(ReadCredentials(options.credentials, scheme).status());
    stores.by_scheme[scheme] = std::make_shared<const storage::S3Store>(
        scheme, *endpoint,
        storage::S3Store::Environment{&clock, [path = options.credentials, scheme] { return ReadCredentials(path, scheme); },
                                      &http::Ask, &http::PauseBetween});
  }
  if (stores.by_scheme.empty() && !(options.credentials.empty() && options.users_objects.empty()))
    return absl::InvalidArgumentError("--object-credentials and --users-objects need --object-store");
  return stores;
}

}  // namespace pw
