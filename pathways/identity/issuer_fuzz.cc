// Fuzzes the readers of an identity provider's key sets and tokens: every input ends with a value or a status, and no text that the
// provider has not signed is a token.
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "pathways/base/log.h"
#include "pathways/identity/issuer.h"

namespace {

// The point of RFC 7515, A.3; nobody here has its private key.
constexpr char kKeys[] =
    R"({"keys":[{"kty":"EC","crv":"P-256","kid":"k","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]})";

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using pw::identity::Issuer;
  using pw::identity::KeySet;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const absl::Time now = absl::FromUnixSeconds(1'000);
  if (const auto keys = KeySet::Parse(text); keys.ok()) PW_CHECK(keys->size() > 0);
  static Issuer* issuer = [] {
    auto* made = new Issuer(*Issuer::Create({"https://id.example.org", "pathways"}));
    made->SetKeys(*KeySet::Parse(kKeys));
    return made;
  }();
  (void)Issuer::HasForm(text);
  PW_CHECK(!issuer->Admit(text, now).ok());
  // As a part of a token each, so that the readers behind base64 and behind the header see it too.
  const std::string part = absl::WebSafeBase64Escape(text), header = absl::WebSafeBase64Escape(R"({"alg":"ES256","kid":"k"})");
  PW_CHECK(!issuer->Admit(absl::StrCat(part, ".", part, ".", part), now).ok());
  PW_CHECK(!issuer->Admit(absl::StrCat(header, ".", part, ".", part), now).ok());
  issuer->CallerOf(part, now).status().IgnoreError();
  return 0;
}
