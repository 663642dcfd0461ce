#include "pathways/session/token_questions.h"

#include "absl/strings/str_cat.h"
#include "pathways/base/json_writer.h"
#include "pathways/base/status_macros.h"

namespace pw::session {
namespace {

using ::pathways::v1::TokenQuestion;

absl::StatusOr<std::string> Create(identity::ClusterIdentity& identity, const TokenQuestion::Create& wanted) {
  identity::TokenRequest request;
  request.user = wanted.user();
  PW_ASSIGN_OR_RETURN(request.role, identity::ParseRole(wanted.role()));
  if (wanted.expires() != 0) request.expires = absl::FromUnixSeconds(wanted.expires());
  if (wanted.uses() != 0) request.uses = wanted.uses();
  PW_ASSIGN_OR_RETURN(const std::string token, identity.CreateToken(request));
  return absl::StrCat("authority ", net::FingerprintText(identity.authority()), "\ntoken ", token, "\n");
}

std::string List(const identity::ClusterIdentity& identity) {
  JsonWriter json;
  json.BeginArray();
  for (const identity::TokenInfo& info : identity.ListTokens()) {
    json.BeginObject()
        .Key("id")
        .String(info.id)
        .Key("user")
        .String(info.of.user)
        .Key("role")
        .String(identity::RoleName(info.of.role));
    json.Key("created").Int(absl::ToUnixSeconds(info.created));
    if (info.of.expires != absl::InfiniteFuture()) json.Key("expires").Int(absl::ToUnixSeconds(info.of.expires));
    if (info.of.uses.has_value()) json.Key("uses").Int(*info.of.uses);
    json.EndObject();
  }
  return json.EndArray().Take();
}

}  // namespace

absl::StatusOr<std::string> AnswerTokens(identity::ClusterIdentity& identity, const TokenQuestion& question) {
  switch (question.kind_case()) {
    case TokenQuestion::kCreate:
      return Create(identity, question.create());
    case TokenQuestion::kList:
      return List(identity);
    case TokenQuestion::kRevoke:
      PW_RETURN_IF_ERROR(identity.RevokeToken(question.revoke()));
      return std::string();
    case TokenQuestion::KIND_NOT_SET:
      break;
  }
  return absl::UnimplementedError("this controller does not know this question about tokens: the client is newer");
}

}  // namespace pw::session
