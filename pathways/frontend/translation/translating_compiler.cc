#include "pathways/frontend/translation/translating_compiler.h"

#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/log.h"
#include "pathways/frontend/client_session.h"
#include "pathways/frontend/translation/client_translator.h"
#include "pathways/program/stablehlo_version.h"

namespace pw::frontend {
namespace {

using program::StablehloVersion;

constexpr char kRemedy[] =
    "Install the client's jaxlib, or a newer one, for the Python that the controller was started with (--translator-python), or "
    "an "
    "older jax on the client";

std::optional<StablehloVersion> VersionOf(const Bytes& program) {
  const std::string_view bytes = program.view();
  return program::StablehloVersionOf(absl::string_view(bytes.data(), bytes.size()));
}

// Returns the version to translate a program to; none if the program is not newer.
std::optional<StablehloVersion> TargetFor(const Bytes& program, const controller::ClusterInfo& cluster) {
  const auto theirs = VersionOf(program), ours = program::ParseStablehloVersion(cluster.stablehlo_version);
  if (!theirs.has_value() || !ours.has_value() || *theirs <= *ours) return std::nullopt;
  return ours;
}

// Patch versions do not change the form of programs, so such programs are hardly ever refused.
bool IsNewerMinor(const StablehloVersion& a, const StablehloVersion& b) {
  return StablehloVersion{a.major, a.minor, 0} > StablehloVersion{b.major, b.minor, 0};
}

absl::Status Cancelled() { return absl::CancelledError("the client has gone"); }

// Calls `task` with the session once it is open and not suspended; with null if it has ended.
void WhenAwake(std::weak_ptr<ClientSession> weak, absl::AnyInvocable<void(ClientSession*) &&> task) {
  const std::shared_ptr<ClientSession> session = weak.lock();
  if (session == nullptr || !session->open()) return std::move(task)(nullptr);
  if (!session->session().suspended()) return std::move(task)(session.get());
  session->session().WhenResumed(
      [weak = std::move(weak), task = std::move(task)]() mutable { WhenAwake(std::move(weak), std::move(task)); });
}

}  // namespace

struct TranslatingCompiler::Refused {
  std::weak_ptr<ClientSession> session;
  controller::CompileRequest request;
  StablehloVersion target;
  absl::Status refusal;
  Done done;

  // Fails with the hosts' error, followed by the reason why the program was not translated.
  void Fail(const absl::Status& why, absl::string_view remedy = "") && {
    const absl::string_view separator = remedy.empty() ? "" : ". ";
    std::move(done)(absl::Status(refusal.code(), absl::StrCat(refusal.message(), "\nIt was not translated to StableHLO ",
                                                              target.ToString(), ": ", why.message(), separator, remedy)));
  }
};

void TranslatingCompiler::Compile(ClientSession& session, controller::CompileRequest request, Done done) {
  const std::optional<StablehloVersion> target = TargetFor(request.program, *session.cluster().info());
  if (!target.has_value()) return session.session().Compile(std::move(request), std::move(done));
  if (auto known = translations_.Find(session.wire_id(), target->ToString(), request.program); known.has_value()) {
    request.program = *std::move(known);
    request.translated = true;
    return session.session().Compile(std::move(request), std::move(done));
  }
  if (helper_ != nullptr && session.companion() == nullptr && IsNewerMinor(*VersionOf(request.program), *target))
    helper_->Prepare();
  Refused refused{session.weak_from_this(), request, *target, absl::OkStatus(), std::move(done)};
  session.session().Compile(std::move(request), [self = shared_from_this(), refused = std::move(refused)](auto info) mutable {
    if (info.ok() || !info.status().GetPayload(controller::kNewerThanRuntime).has_value())
      return std::move(refused.done)(std::move(info));
    refused.refusal = info.status();
    std::weak_ptr<ClientSession> session = refused.session;
    WhenAwake(std::move(session), [self, refused = std::move(refused)](ClientSession* session) mutable {
      if (session == nullptr) return std::move(refused.done)(Cancelled());
      self->Translate(*session, std::move(refused));
    });
  });
}

void TranslatingCompiler::Translate(ClientSession& session, Refused refused) {
  if (refused.request.program.size() > options_.max_program_bytes) {
    return std::move(refused).Fail(absl::ResourceExhaustedError(
        absl::StrCat("it has ", refused.request.program.size(), " bytes, more than the ", options_.max_program_bytes,
                     " that are translated; pass large constants as arguments")));
  }
  const std::shared_ptr<controller::HostCallHandler> channel = session.companion();
  if (channel == nullptr) return TranslateByHelper(std::move(refused));
  const Bytes program = refused.request.program;
  const std::string version = refused.target.ToString();
  ClientTranslator(channel, timers_, strand_, options_.client_limit)
      .Translate(program, version,
                 [self = shared_from_this(), owner = session.wire_id(), refused = std::move(refused)](auto translation) mutable {
                   if (absl::IsNotFound(translation.status())) return self->TranslateByHelper(std::move(refused));
                   self->OnTranslated(std::move(refused), owner, std::move(translation));
                 });
}

void TranslatingCompiler::TranslateByHelper(Refused refused) {
  if (helper_ == nullptr) {
    return std::move(refused).Fail(absl::UnimplementedError("the controller has no Python to do it"), kRemedy);
  }
  const Bytes program = refused.request.program;
  const std::string version = refused.target.ToString();
  helper_->Translate(program, version, [self = shared_from_this(), refused = std::move(refused)](auto translation) mutable {
    self->OnTranslated(std::move(refused), Translations::kEverybody, std::move(translation));
  });
}

void TranslatingCompiler::OnTranslated(Refused refused, uint64_t owner, absl::StatusOr<Bytes> translation) {
  if (!translation.ok()) {
    // The helper's jaxlib cannot do it, or there is no helper.
    const bool another = absl::IsInvalidArgument(translation.status()) || absl::IsFailedPrecondition(translation.status());
    return std::move(refused).Fail(translation.status(), another ? kRemedy : "");
  }
  const auto version = VersionOf(*translation);
  if (!version.has_value() || *version > refused.target)
    return std::move(refused).Fail(absl::InternalError("what came back is not a program for that version"));
  PW_LOG_INFO << "a program of " << refused.request.program.size() << " bytes was translated from StableHLO "
              << VersionOf(refused.request.program)->ToString() << " to " << version->ToString()
              << (owner == Translations::kEverybody ? " beside the controller" : " by its client");
  std::weak_ptr<ClientSession> session = refused.session;
  WhenAwake(std::move(session), [self = shared_from_this(), refused = std::move(refused), owner,
                                 translation = *std::move(translation)](ClientSession* session) mutable {
    // The translation of a client that has left is not kept.
    if (session != nullptr || owner == Translations::kEverybody)
      self->translations_.Add(owner, refused.target.ToString(), refused.request.program, translation);
    if (session == nullptr) return std::move(refused.done)(Cancelled());
    refused.request.program = std::move(translation);
    refused.request.translated = true;
    session->session().Compile(std::move(refused.request), std::move(refused.done));
  });
}

void TranslatingCompiler::Forget(const ClientSession& session) { translations_.Forget(session.wire_id()); }

}  // namespace pw::frontend
