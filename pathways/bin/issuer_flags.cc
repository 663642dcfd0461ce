#include "pathways/bin/issuer_flags.h"

#include <sys/eventfd.h>

#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "pathways/base/log.h"
#include "pathways/base/status_macros.h"
#include "pathways/bin/served_here.h"
#include "pathways/json/json.h"
#include "pathways/net/tls/https_get.h"

namespace pw {
namespace {

constexpr absl::Duration kEvery = absl::Minutes(5), kAfterFailure = absl::Seconds(30), kRest = absl::Seconds(10);
constexpr size_t kMostBytes = 1 << 20;

absl::Status At(const std::string& place, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(place, ": ", status.message()));
}

absl::StatusOr<std::string> ReadDocument(const IssuerFlags& options, const std::string& place, int stop) {
  absl::StatusOr<std::string> text =
      absl::StartsWith(place, "https://")
          ? net::HttpsGet(place, {.authorities = options.authorities, .most_bytes = kMostBytes, .stop = stop})
          : ReadSmallFile(place, kMostBytes);
  return text.ok() ? std::move(text) : At(place, text.status());
}

// Asks the issuer where its keys are (OpenID Connect Discovery 1.0).
absl::StatusOr<std::string> PlaceOfKeys(const IssuerFlags& options, int stop) {
  if (!options.keys.empty()) return options.keys;
  const std::string place = absl::StrCat(absl::StripSuffix(options.issuer.url, "/"), "/.well-known/openid-configuration");
  PW_ASSIGN_OR_RETURN(const std::string text, ReadDocument(options, place, stop));
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
             "of --oidc-issuer: users whose field CLAIM is VALUE, or has it in its list, are operators; default: none");
  flags->Add("oidc-keys", &options->keys, "URL|PATH",
             "of --oidc-issuer: its key set (JWKS), read again every five minutes; default: where the provider says that it is");
  flags->Add("oidc-ca", &options->authorities, "PATH",
             "of --oidc-issuer: the authorities (PEM) that certify its server; default: the system's");
}

absl::StatusOr<std::optional<identity::Issuer>> IssuerOf(const IssuerFlags& options) {
  const identity::IssuerOptions& issuer = options.issuer;
  if (issuer.url.empty()) {
    if (!issuer.audience.empty() || !issuer.operators.empty() || !options.keys.empty() || !options.authorities.empty())
      return absl::InvalidArgumentError("the flags --oidc-... need --oidc-issuer");
    return std::nullopt;
  }
  PW_ASSIGN_OR_RETURN(identity::Issuer made, identity::Issuer::Create(issuer));
  return std::optional<identity::Issuer>(std::move(made));
}

absl::StatusOr<identity::KeySet> ReadIssuerKeys(const IssuerFlags& options, int stop) {
  PW_ASSIGN_OR_RETURN(const std::string place, PlaceOfKeys(options, stop));
  PW_ASSIGN_OR_RETURN(const std::string text, ReadDocument(options, place, stop));
  absl::StatusOr<identity::KeySet> keys = identity::KeySet::Parse(text);
  return keys.ok() ? std::move(keys) : At(place, keys.status());
}

absl::StatusOr<std::shared_ptr<IssuerKeyReader>> IssuerKeyReader::Start(IssuerFlags options, identity::Issuer* issuer,
                                                                        Timers* timers, Executor* strand) {
  if (issuer == nullptr) return nullptr;
  net::Fd stop(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!stop.valid()) return absl::ResourceExhaustedError("there are too many open files");
  std::shared_ptr<IssuerKeyReader> reader(new IssuerKeyReader(std::move(options), issuer, timers, strand, std::move(stop)));
  reader->Post(&IssuerKeyReader::Read);
  strand->Post([issuer, weak = reader->weak_from_this()] {
    issuer->OnUnknownKey([weak] {
      if (auto self = weak.lock()) self->ReadIfOld();
    });
  });
  return reader;
}

IssuerKeyReader::IssuerKeyReader(IssuerFlags options, identity::Issuer* issuer, Timers* timers, Executor* strand, net::Fd stop)
    : options_(std::move(options)),
      issuer_(issuer),
      timers_(timers),
      strand_(strand),
      stop_(std::move(stop)),
      thread_("pw-oidc-keys", 1) {}

IssuerKeyReader::~IssuerKeyReader() {
  // If this failed, a request would end by its own time limit.
  if (::eventfd_write(stop_.get(), 1) != 0) {
    PW_LOG_WARNING << "the reading of keys was not told to end";
  }
}

void IssuerKeyReader::Post(void (IssuerKeyReader::*step)()) {
  strand_->Post([weak = weak_from_this(), step] {
    if (auto self = weak.lock()) (self.get()->*step)();
  });
}

void IssuerKeyReader::After(absl::Duration delay, void (IssuerKeyReader::*step)()) {
  timers_->After(delay, strand_, [weak = weak_from_this(), step, readings = readings_] {
    auto self = weak.lock();
    if (self != nullptr && self->readings_ == readings) (self.get()->*step)();  // a later reading has set its own timers
  });
}

void IssuerKeyReader::Read() {
  if (reads_) return;
  reads_ = true;
  thread_.Post([this, weak = weak_from_this()] {
    strand_->Post([weak, keys = ReadIssuerKeys(options_, stop_.get())]() mutable {
      if (auto self = weak.lock()) self->OnRead(std::move(keys));
    });
  });
}

void IssuerKeyReader::ReadIfOld() {
  if (!rests_) Read();
}

void IssuerKeyReader::OnRead(absl::StatusOr<identity::KeySet> keys) {
  reads_ = false;
  rests_ = true;
  ++readings_;
  After(kRest, &IssuerKeyReader::Rested);
  After(keys.ok() ? kEvery : kAfterFailure, &IssuerKeyReader::Read);
  if (!keys.ok()) {
    PW_LOG_WARNING << "the keys of " << options_.issuer.url << " were not read: " << keys.status().message()
                   << (known_ ? "; the last ones stay in force" : "; its tokens are refused until they are");
    return;
  }
  if (!known_) {
    PW_LOG_INFO << "read " << keys->size() << " key(s) of " << options_.issuer.url;
  }
  known_ = true;
  issuer_->SetKeys(*std::move(keys));
}

}  // namespace pw
