// Fuzzes the parsers of tokens, tables of tokens, token files, and tokens and keys of an identity provider: every input ends with a value or a status.
#include <cstddef>
#include <cstdint>
#include <string>

#include "pathways/base/log.h"
#include "pathways/identity/issuer.h"
#include "pathways/identity/token_file.h"
#include "pathways/identity/tokens.h"

// A provider with the public key of RFC 7517, appendix A.1, whose private half signs no input here.
pw::identity::Issuer Provider() {
  pw::identity::Issuer issuer = *pw::identity::Issuer::Create({"https://id.example.org", "pathways"});
  issuer.SetKeys(*pw::identity::KeySet::Parse(
      R"({"keys":[{"kty":"EC","crv":"P-256","kid":"1","x":"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4",)"
      R"("y":"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM"}]})"));
  return issuer;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const absl::Time now = absl::FromUnixSeconds(1'000);
  pw::identity::TokenTable empty;
  PW_CHECK(!empty.Check(text, now).ok());
  if (auto table = pw::identity::TokenTable::Parse(text); table.ok()) {
    PW_CHECK(pw::identity::TokenTable::Parse(table->ToText()).ok());
    table->Use(text, now).status().IgnoreError();
  }
  if (auto file = pw::identity::ParseTokenFile(text); file.ok())
    PW_CHECK(pw::identity::ParseTokenFile(pw::identity::ToText(*file)).ok());
  static const pw::identity::Issuer& provider = *new pw::identity::Issuer(Provider());
  PW_CHECK(!provider.Admit(text, now).ok());
  if (auto keys = pw::identity::KeySet::Parse(text); keys.ok()) PW_CHECK(keys->size() > 0);
  return 0;
}
