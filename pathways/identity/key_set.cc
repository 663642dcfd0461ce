#include "pathways/identity/key_set.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "pathways/base/status_macros.h"
#include "pathways/json/json.h"

namespace pw::identity {
namespace {

constexpr size_t kMostKeys = 64;

// Returns a field, or "" if it is absent or no text.
std::string Text(const JsonObject& key, const std::string& name) { return StringField(key, name).value_or(""); }

absl::StatusOr<std::string> Number(const JsonObject& key, const std::string& name) {
  std::string bytes;
  if (!absl::WebSafeBase64Unescape(Text(key, name), &bytes)) return absl::InvalidArgumentError("a number is not in base64url");
  return bytes;
}

absl::StatusOr<net::VerifyingKey> KeyOf(const JsonObject& key) {
  if (Text(key, "kty") == "RSA") {
    PW_ASSIGN_OR_RETURN(const std::string n, Number(key, "n"));
    PW_ASSIGN_OR_RETURN(const std::string e, Number(key, "e"));
    return net::VerifyingKey::Rsa(n, e);
  }
  if (Text(key, "kty") == "EC" && Text(key, "crv") == "P-256") {
    PW_ASSIGN_OR_RETURN(const std::string x, Number(key, "x"));
    PW_ASSIGN_OR_RETURN(const std::string y, Number(key, "y"));
    return net::VerifyingKey::P256(x, y);
  }
  return absl::UnimplementedError("only RSA and P-256 are known");
}

}  // namespace

absl::StatusOr<KeySet> KeySet::Parse(absl::string_view text) {
  PW_ASSIGN_OR_RETURN(const JsonObject object, ParseJson(text));
  PW_ASSIGN_OR_RETURN(const std::vector<JsonObject> keys, ObjectsField(object, "keys"));
  if (keys.size() > kMostKeys) return absl::InvalidArgumentError("a key set has at most 64 keys");
  KeySet set;
  for (const JsonObject& key : keys) {
    if (const std::string use = Text(key, "use"); !use.empty() && use != "sig") continue;
    absl::StatusOr<net::VerifyingKey> made = KeyOf(key);
    if (!made.ok()) continue;
    if (const std::string alg = Text(key, "alg"); !alg.empty() && alg != made->algorithm()) continue;
    set.keys_[Text(key, "kid")] = std::make_shared<const net::VerifyingKey>(*std::move(made));
  }
  if (set.keys_.empty()) return absl::InvalidArgumentError("the key set has no key for RS256 or ES256");
  return set;
}

const net::VerifyingKey* KeySet::Find(const std::string& id) const {
  if (id.empty()) return keys_.size() == 1 ? keys_.begin()->second.get() : nullptr;
  const auto it = keys_.find(id);
  return it == keys_.end() ? nullptr : it->second.get();
}

}  // namespace pw::identity
