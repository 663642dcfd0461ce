#include "pathways/frontend/plugin_programs/status.h"

#include <utility>

#include "pathways/frontend/client_session.h"
#include "pathways/frontend/plugin_programs/text_answer.h"

namespace pw::frontend {
namespace {

class StatusProgram final : public TextAnswer {
 public:
  StatusProgram() : TextAnswer("status request") {}
  void Prepare(ClientSession& session, controller::StatusCallback done) override {
    session.cluster().GetStatus([self = shared_from_this(), this, done = std::move(done)](absl::StatusOr<std::string> report) mutable {
      if (report.ok()) answer_ = *std::move(report);
      std::move(done)(report.status());
    });
  }
};

}  // namespace

absl::StatusOr<std::shared_ptr<PluginExecutable>> MakeStatusProgram(const JsonObject&) { return std::make_shared<StatusProgram>(); }

}  // namespace pw::frontend
