#include "pathways/worker/execute/profiles.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/status_macros.h"
#include "pathways/worker/execute/xspace.h"

namespace pw::worker {
namespace v1 = pathways::v1;

namespace {

// Ends the runtime's recording. Runs on the pool.
absl::StatusOr<std::string> Collect(device::RuntimeProfile& profile, size_t max_bytes, const XSpaceOptions& options) {
  PW_ASSIGN_OR_RETURN(const std::string bytes, profile.Stop(max_bytes));
  PW_ASSIGN_OR_RETURN(const auto space, RuntimeXSpace(bytes, options));
  return space.SerializeAsString();
}

std::string TooLarge(absl::string_view what, uint64_t bytes, uint64_t limit) {
  return absl::StrCat(what, " has ", bytes >> 20, " MiB, and the limit is ", limit >> 20,
                      " MiB: record for a shorter time, or raise the limit");
}

}  // namespace

void Profiles::Begin(const v1::HostConfig::Recording& recording) {
  wanted_ = recording;
  auto& profile = *wanted_.mutable_profile();
  profile.set_max_bytes(std::min(profile.max_bytes() == 0 ? kMostBytes : profile.max_bytes(), kMostBytes));
  recording_ = true;
  bytes_.clear();
  runtime_profile_.reset();
  runtime_status_ = absl::OkStatus();
  if (!profile.runtime() || profile.session() != 0) return;
  auto started = runtime_->StartProfile();
  if (started.ok())
    runtime_profile_ = *std::move(started);
  else
    runtime_status_ = started.status();
}

void Profiles::End(const trace::Recording& own, const std::string& host, Made made) {
  recording_ = false;
  const auto& profile = wanted_.profile();
  const XSpaceOptions options{host, profile.session(), profile.merged()};
  std::string planes = ToXSpace(own, options).SerializeAsString();
  if (runtime_profile_ == nullptr) {
    const bool lacks = !runtime_status_.ok() && !absl::IsUnimplemented(runtime_status_);
    return Finish(std::move(planes), lacks ? absl::StatusOr<std::string>(runtime_status_) : std::string(), made);
  }
  struct Work {
    std::unique_ptr<device::RuntimeProfile> profile;
    absl::StatusOr<std::string> result;
  };
  auto work = std::make_shared<Work>(Work{std::move(runtime_profile_), std::string()});
  pool_->Post([this, work, options, planes = std::move(planes), made = std::move(made), max_bytes = profile.max_bytes(),
               id = wanted_.id(), strand = context_->strand(), alive = context_->alive()]() mutable {
    work->result = Collect(*work->profile, max_bytes, options);
    work->profile.reset();
    strand->Post([this, work, planes = std::move(planes), made = std::move(made), id, alive]() mutable {
      if (alive.expired()) return;
      if (wanted_.id() != id) return made(0, "the profile was given up");
      Finish(std::move(planes), work->result, made);
    });
  });
}

// A profile that is too large is kept without the runtime's events, if that helps.
void Profiles::Finish(std::string own, const absl::StatusOr<std::string>& runtime, const Made& made) {
  const uint64_t limit = wanted_.profile().max_bytes();
  std::string missing;
  if (own.size() > limit) {
    missing = TooLarge("the host's own recording", own.size(), limit);
    own.clear();
  }
  bytes_ = std::move(own);
  if (!runtime.ok()) {
    absl::StrAppend(&missing, missing.empty() ? "" : "; ", "the device runtime's events: ", runtime.status().message());
  } else if (runtime->size() > limit - bytes_.size()) {
    absl::StrAppend(&missing, missing.empty() ? "" : "; ", TooLarge("the device runtime's recording", runtime->size(), limit));
  } else {
    bytes_ += *runtime;
  }
  made(bytes_.size(), missing);
}

absl::StatusOr<v1::ProfilePiece> Profiles::Read(const v1::ProfilePart& part) const {
  if (part.recording() == 0 || part.recording() != wanted_.id() || recording_)
    return absl::NotFoundError("this host does not keep that profile");
  if (part.offset() > bytes_.size()) return absl::OutOfRangeError("the part is beyond the end of the profile");
  v1::ProfilePiece piece;
  piece.set_bytes(bytes_.substr(part.offset(), kPieceBytes));
  return piece;
}

void Profiles::Keep(uint64_t recording) {
  if (wanted_.id() == recording) return;
  wanted_.Clear();
  recording_ = false;
  runtime_profile_.reset();
  std::string().swap(bytes_);
}

}  // namespace pw::worker
