# The view stat_mount counts what front doors take in, refuse and deliver, per mount.
use strict;
use warnings;
use Test::More;
use FleetlogTest;

my $s = FleetlogTest->new('mounts');
$s->fleet(devices => 2);
$s->sql("SELECT fleetlog.create_stream('small', max_record_bytes => 600)");
$s->sql("SELECT fleetlog.mount('acme/d1/small/', 'small')");

my $in = "SELECT messages_in, bytes_in, refused, messages_out, bytes_out FROM fleetlog.stat_mount WHERE prefix = '%s'";
is($s->sql(sprintf($in, 'acme/d1/small/')), '0|0|0|0|0', 'a mount that nobody used');
my $device = $s->device('d1');
my $listener = $s->device('d1', client_id => 'listener');
is_deeply([ $listener->subscribe([ [ 'acme/d1/#', 1 ] ]) ], [ 1 ], 'a listener');
is($device->publish_acked('acme/d1/small/a', 'x' x 100), 0, 'accepted');
is($device->publish_acked('acme/d1/small/a', 'x' x 700), 0x97, 'refused: larger than the stream takes, and the connection stays');
is($device->publish_acked('acme/d1/b', 'y' x 10), 0, 'through the other mount');
$s->wait_for("SELECT sum(messages_in), sum(messages_out) FROM fleetlog.stat_mount", '2|2', 'all to be counted');
is($s->sql(sprintf($in, 'acme/d1/small/')), '1|100|1|1|100', 'counted at the longest prefix');
is($s->sql("SELECT sum(messages_in), sum(bytes_in), sum(refused) FROM fleetlog.stat_mount"), '2|110|1', 'and at the others');
is($s->crashes, '', 'no crash');
done_testing();
