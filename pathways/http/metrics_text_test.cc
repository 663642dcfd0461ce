#include "pathways/http/metrics_text.h"

#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pw::http {
namespace {

using ::testing::ContainsRegex;

TEST(MetricsText, AFamilyHasHelpTypeAndValues) {
  MetricsText text;
  text.Gauge("pathways_hosts", "Hosts.")
      .Value({{"state", "up"}, {"island", "a"}}, 4)
      .Value({{"state", "busy"}, {"island", "a"}}, 0.25);
  text.Counter("pathways_grants_total", "Grants.").Value(12345678901.0);
  EXPECT_EQ(text.Take(),
            "# HELP pathways_hosts Hosts.\n# TYPE pathways_hosts gauge\npathways_hosts{state=\"up\",island=\"a\"} 4\n"
            "pathways_hosts{state=\"busy\",island=\"a\"} 0.25\n"
            "# HELP pathways_grants_total Grants.\n# TYPE pathways_grants_total counter\npathways_grants_total 12345678901\n");
}

TEST(MetricsText, LabelValuesAreEscapedAndMadeUtf8) {
  MetricsText text;
  text.Gauge("a", "A.").Value({{"b", "q\"\\\n\xFF\xC3\xA9"}}, 1);
  EXPECT_THAT(text.Take(), testing::HasSubstr("a{b=\"q\\\"\\\\\\n\xEF\xBF\xBD\xC3\xA9\"} 1\n"));
}

TEST(MetricsText, NumbersReadBackExactly) {
  MetricsText text;
  text.Gauge("a", "A.").Value(0.1).Value(1.0 / 3).Value(std::numeric_limits<double>::infinity()).Value(std::nan(""));
  EXPECT_THAT(text.Take(), testing::HasSubstr("a 0.1\na 0.33333333333333331\na +Inf\na NaN\n"));
}

TEST(MetricsTextDeathTest, AMistakeOfOursIsFound) {
  EXPECT_DEATH(MetricsText().Counter("grants", "No total."), "");
  EXPECT_DEATH(MetricsText().Gauge("a", "A.").Gauge("a", "Again."), "");
  EXPECT_DEATH(MetricsText().Gauge("a-b", "Not a name."), "");
}

TEST(MetricsText, EveryProcessTellsItsOwn) {
  MetricsText text;
  AddProcessMetrics(&text);
  const std::string page = text.Take();
  EXPECT_THAT(page, ContainsRegex("\nprocess_cpu_seconds_total [0-9.e+-]+\n"));
  EXPECT_THAT(page, ContainsRegex("\nprocess_resident_memory_bytes [1-9][0-9.e+]{5,}\n"));
  EXPECT_THAT(page, ContainsRegex("\nprocess_open_fds [1-9]"));
  EXPECT_THAT(page, ContainsRegex("\nprocess_start_time_seconds 1[0-9]{9}"));
}

}  // namespace
}  // namespace pw::http
