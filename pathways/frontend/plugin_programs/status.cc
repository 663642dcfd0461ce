#include "pathways/frontend/plugin_programs/status.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "pathways/frontend/client_session.h"
#include "pathways/frontend/plugin_programs/text_answer.h"

namespace pw::frontend {
namespace {

class StatusProgram final : public TextAnswer {
 public:
  StatusProgram() : TextAnswer("status request") {}
  void Prepare(ClientSession& session, controller::StatusCallback done) override {
    const int64_t bytes = session.session().array_bytes();
    session.cluster().GetStatus([self = shared_from_this(), this, bytes, done = std::move(done)](absl::StatusOr<std::string> report) mutable {
      if (report.ok() && absl::StartsWith(*report, "{")) answer_ = absl::StrCat("{\"client_array_bytes\": ", bytes, ", ", report->substr(1));
      std::move(done)(report.status());
    });
  }
};

}  // namespace

absl::StatusOr<std::shared_ptr<PluginExecutable>> MakeStatusProgram(const JsonObject&) { return std::make_shared<StatusProgram>(); }

}  // namespace pw::frontend
