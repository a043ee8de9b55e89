# F: devices that fall silent and devices that stop reading, within a fleet.  The server lets go of the silent ones when their
# keep alive has passed one and a half times, keeps those that still speak, and serves all others as before; when they can
# again, all come back and deliver what they have kept.  Judged are counts.
use strict;
use warnings;
use Test::More;
use FleetlogTest;
use FleetlogTest::Fleet;

my $n = 100;
my $s = FleetlogTest->new('faulty');
$s->sql("SELECT fleetlog.create_stream('telemetry'); SELECT fleetlog.create_tenant('acme', 'acme/'); SELECT fleetlog.mount('acme/', 'telemetry')");
my $credentials = FleetlogTest::Fleet->register($s, 'credentials', 1, $n);
my $truth = PostgreSQL::Test::Utils::tempdir() . '/truth';
my $connected = "SELECT count(*) FROM fleetlog.stat_connection WHERE identity LIKE 'acme/d%'";

# A keep alive that is short for a device, and long for a machine that is busy with something else: after a quarter of it without
# a CPU those who are well would lose their connections as well.
my $fleet = FleetlogTest::Fleet->start($s, '-c', $n, '--credentials', $credentials, '--truth', $truth, '--boot', 1, '--base-pause', 0.1,
    '--cap', 2, '--stable', 0.5, '--keep-alive', 12, '--interval', 0.5, '--mix', '40,50,10', '--connect-timeout', $FleetlogTest::TIMEOUT, '--drain', $FleetlogTest::TIMEOUT);
my $line = $fleet->wait_connected($n);
is($line->{subscribed}, $n, 'every device listens to its commands');

# Silent: the sockets stay, nothing is said on them.
is($fleet->command('silence 20%')->{silent}, 20, '20 devices fall silent');
$s->wait_for($connected, 80, 'the server to let go of the silent ones');
$line = $fleet->command('go');
is($line->{connected}, $n, 'which these have not noticed');
is($line->{lost}, 0, 'none of the others has lost its connection');
$fleet->wait_for('acked', sub { $_[0] >= $line->{acked} + 200 }, 'the readings of the others');
is($s->sql($connected), 80, 'the others are still there');

# Deaf: they speak, and do not read the answers.
is($fleet->command('stop reading 25%')->{deaf}, 20, '20 of the other 80 stop reading');
$line = $fleet->wait_for('dropped', sub { $_[0] >= 20 }, 'the memory of those without acknowledgements to be full');
$fleet->wait_for('acked', sub { $_[0] >= $line->{acked} + 200 }, 'the readings of those that read');
is($fleet->command('go')->{lost}, 0, 'and again none of the others has lost its connection');

# Back to good.
is($fleet->command('resume')->{devices}, 40, '40 devices are well again');
$line = $fleet->wait_for('lost', sub { $_[0] >= 20 }, 'the silent ones to find their connections gone');
$fleet->wait_connected($n, 'all to be back');
$s->wait_for($connected, $n, 'the server to have all again');
my $summary = $fleet->quit;
is($fleet->{status}, 0, 'the fleet ends with everything acknowledged');
is($summary->{lost}, 20, 'only silence has cost a connection');
is($summary->{protocol_errors}, 0, 'no packet was out of place');
note(JSON::PP::encode_json($summary));

my ($ok, $said) = FleetlogTest::Fleet::check_truth($s, 'telemetry', $truth);
ok($ok, "nothing acknowledged is lost: $said");
is($s->crashes, '', 'no process has crashed');
done_testing();
