#include "pathways/frontend/metrics_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pw::frontend {
namespace {

using ::testing::HasSubstr;

TEST(MetricsPageTest, ShowsProgramsAndTheirRequestsByKind) {
  ServedCounts counts;
  counts.sessions = 7;
  counts.request_bytes = 4096;
  counts.requests[IfrtRequest::kInitRequest] = 3;
  counts.requests[0] = 2;
  const std::string text = ToMetricsPage(2, counts, HandlerTable());
  for (const char* line :
       {"pathways_agent_programs 2\n", "pathways_agent_programs_total 7\n", "pathways_agent_requests_total{kind=\"init\"} 3\n",
        "pathways_agent_requests_total{kind=\"compile\"} 0\n", "pathways_agent_requests_total{kind=\"unknown\"} 2\n",
        "pathways_agent_request_bytes_total 4096\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

}  // namespace
}  // namespace pw::frontend
