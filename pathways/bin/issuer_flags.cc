#include "pathways/bin/issuer_flags.h"

#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "pathways/base/log.h"
#include "pathways/base/status_macros.h"
#include "pathways/json/json.h"
#include "pathways/net/tls/https_get.h"

namespace pw {
namespace {

constexpr absl::Duration kEvery = absl::Minutes(5), kAfterFailure = absl::Seconds(30), kAfterUnknownKey = absl::Seconds(10);
constexpr size_t kMostBytes = 1 << 20;

absl::Status At(const std::string& place, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(place, ": ", status.message()));
}

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError("there is no such file, or it cannot be read");
  std::string text(kMostBytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  return text;
}

absl::StatusOr<std::string> ReadDocument(const IssuerFlags& options, const std::string& place) {
  absl::StatusOr<std::string> text = absl::StartsWith(place, "https://")
                                         ? net::HttpsGet(place, {.authorities = options.authorities, .most_bytes = kMostBytes})
                                         : ReadFile(place);
  return text.ok() ? std::move(text) : At(place, text.status());
}

// Asks the issuer where its keys are (OpenID Connect Discovery 1.0).
absl::StatusOr<std::string> PlaceOfKeys(const IssuerFlags& options) {
  if (!options.keys.empty()) return options.keys;
  const std::string place = absl::StrCat(absl::StripSuffix(options.issuer.url, "/"), "/.well-known/openid-configuration");
  PW_ASSIGN_OR_RETURN(const std::string text, ReadDocument(options, place));
  const absl::StatusOr<JsonObject> object = ParseJson(text);
  if (!object.ok()) return At(place, object.status());
  const std::string issuer = StringField(*object, "issuer").value_or(""), keys = StringField(*object, "jwks_uri").value_or("");
  if (issuer != options.issuer.url)
    return absl::InvalidArgumentError(absl::StrCat(place, " is of another issuer: --oidc-issuer must be as the document has it"));
  if (!absl::StartsWith(keys, "https://"))
    return absl::InvalidArgumentError(absl::StrCat(place, " does not say where the keys are"));
  return keys;
}

}  // namespace

void DeclareIssuer(IssuerFlags* options, Flags* flags) {
  flags->Add(
      "oidc-issuer", &options->issuer.url, "URL",
      "admit clients by the tokens of this OpenID Connect provider, too; exactly as the tokens name it. Needs --identity and "
      "--oidc-audience");
  flags->Add("oidc-audience", &options->issuer.audience, "NAME",
             "of --oidc-issuer: what the tokens for this cluster are for ('aud')");
  flags->Add("oidc-user-claim", &options->issuer.user_claim, "CLAIM",
             "of --oidc-issuer: the field of a token with the user's name");
  flags->Add("oidc-operators", &options->issuer.operators, "CLAIM=VALUE",
             "of --oidc-issuer: users whose field CLAIM is VALUE, or has it in its list, are operators; default: nobody is");
  flags->Add("oidc-keys", &options->keys, "URL|PATH",
             "of --oidc-issuer: its key set (JWKS), read again every five minutes; default: where the provider says that it is");
  flags->Add("oidc-ca", &options->authorities, "PATH",
             "of --oidc-issuer: the authorities (PEM) that certify its server; default: the system's");
}

absl::StatusOr<identity::KeySet> ReadIssuerKeys(const IssuerFlags& options) {
  PW_ASSIGN_OR_RETURN(const std::string place, PlaceOfKeys(options));
  PW_ASSIGN_OR_RETURN(const std::string text, ReadDocument(options, place));
  absl::StatusOr<identity::KeySet> keys = identity::KeySet::Parse(text);
  return keys.ok() ? std::move(keys) : At(place, keys.status());
}

IssuerKeyReader::IssuerKeyReader(IssuerFlags options, identity::ClusterIdentity* identity, Timers* timers, Clock* clock,
                                 Executor* strand, Executor* thread)
    : options_(std::move(options)), identity_(identity), timers_(timers), clock_(clock), strand_(strand), thread_(thread) {}

void IssuerKeyReader::Start() {
  identity_->OnUnknownKey([this] {
    if (known_ && clock_->Now() - last_ >= kAfterUnknownKey) Read();
  });
  Read();
}

void IssuerKeyReader::Read() {
  if (stopped_ || reading_) return;
  reading_ = true;
  thread_->Post([this] { strand_->Post([this, keys = ReadIssuerKeys(options_)]() mutable { OnRead(std::move(keys)); }); });
}

void IssuerKeyReader::OnRead(absl::StatusOr<identity::KeySet> keys) {
  reading_ = false;
  last_ = clock_->Now();
  if (keys.ok()) {
    if (!known_) {
      PW_LOG_INFO << "read " << keys->size() << " key(s) of " << options_.issuer.url;
    }
    known_ = true;
    identity_->SetIssuerKeys(*std::move(keys));
  } else {
    PW_LOG_WARNING << "the keys of " << options_.issuer.url << " were not read: " << keys.status().message()
                   << (known_ ? "; the last ones stay in force" : "; its tokens are refused until they are");
  }
  if (stopped_) return;
  timers_->After(known_ ? kEvery : kAfterFailure, strand_, [this, number = ++readings_] {
    if (number == readings_) Read();  // else a later reading has set another timer
  });
}

}  // namespace pw
