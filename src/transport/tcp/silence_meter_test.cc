#include "transport/tcp/silence_meter.hpp"

#include <gtest/gtest.h>
#include <linux/tcp.h>

namespace tutti {
namespace {

tcp_info unacknowledged(std::uint64_t answered) {
  tcp_info info{};
  info.tcpi_unacked = 1;
  info.tcpi_bytes_acked = answered;
  info.tcpi_rtt = 10'000;  // microseconds
  return info;
}

class WrittenConnection : public testing::Test {
 protected:
  WrittenConnection() { EXPECT_TRUE(meter.wrote()); }

  double seconds(const tcp_info& info, double now) { return meter.measure(info, false, now).seconds; }

  SilenceMeter meter{WayProbe({}, {}, kernel_sockets())};
};

TEST_F(WrittenConnection, IsSettledOnceAllIsAcknowledged) {
  EXPECT_FALSE(meter.wrote());
  EXPECT_EQ(meter.measure({}, true, 1).seconds, 1e-9);
  EXPECT_FALSE(meter.is_settled());
  EXPECT_EQ(meter.measure({}, false, 1.01).seconds, 0);
  EXPECT_TRUE(meter.is_settled());
  EXPECT_TRUE(meter.wrote());
}

TEST_F(WrittenConnection, IsSilentForTheTimeBeyondARoundTrip) {
  EXPECT_EQ(seconds(unacknowledged(5), 1), 1e-9);
  EXPECT_EQ(seconds(unacknowledged(5), 1.005), 1e-9);
  EXPECT_NEAR(seconds(unacknowledged(5), 1.03), 0.02, 1e-6);
  EXPECT_NEAR(seconds(unacknowledged(5), 1.05), 0.04, 1e-6);
}

TEST_F(WrittenConnection, IsHeardWhenMoreIsAcknowledged) {
  seconds(unacknowledged(5), 1);
  EXPECT_NEAR(seconds(unacknowledged(5), 1.03), 0.02, 1e-6);
  EXPECT_EQ(seconds(unacknowledged(6), 1.05), 1e-9);
  EXPECT_NEAR(seconds(unacknowledged(6), 1.08), 0.02, 1e-6);
}

TEST_F(WrittenConnection, ALateMeasurementCountsForLittle) {
  seconds(unacknowledged(5), 1);
  EXPECT_NEAR(seconds(unacknowledged(5), 9), 0.02, 1e-6);
}

}  // namespace
}  // namespace tutti
