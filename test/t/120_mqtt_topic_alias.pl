# M1: topic aliases of the client.  Cases O12 to O15.
use strict;
use warnings;
use Test::More;
use FleetlogTest;

my $s = FleetlogTest->new('alias');
$s->fleet(devices => 2);
my $listener = $s->device('d1', client_id => 'listener');
$listener->subscribe([ [ 'acme/d1/#', 1 ] ]);

sub alias { return (properties => [ [ 35, $_[0] ] ]); }

my $c = $s->raw;
my $ack = $c->login(client_id => 'c', user => 'acme/d1', password => 'pw-d1');
my $max = FleetlogTest::Mqtt::property($ack, 34) // 0;
cmp_ok($max, '>', 0, "CONNACK offers $max aliases");
is($c->publish_acked('acme/d1/a', 'sets', alias(1)), 0, 'alias set');
is($c->publish_acked('', 'uses', alias(1)), 0, 'alias used');
is($c->publish_acked('acme/d1/b', 'resets', alias(1)), 0, 'alias set anew');
is($c->publish_acked('', 'uses again', alias(1)), 0, 'and used');
is($c->publish_acked('acme/d1/c', 'last one', alias($max)), 0, 'the highest alias');
is($c->publish_acked('', 'last one again', alias($max)), 0, 'and used');
is($s->sql("SELECT string_agg(fleetlog.text(payload) || '=' || key, ' ' ORDER BY log_offset) FROM telemetry"),
    'sets=acme/d1/a uses=acme/d1/a resets=acme/d1/b uses again=acme/d1/b last one=acme/d1/c last one again=acme/d1/c', 'the log has whole topics');
my @m = $listener->messages(6);
is(join(' ', map { $_->{topic} } @m), 'acme/d1/a acme/d1/a acme/d1/b acme/d1/b acme/d1/c acme/d1/c', 'subscribers get whole topics');
is(scalar(grep { defined FleetlogTest::Mqtt::property($_, 35) } @m), 0, "and never the publisher's alias");

# O12 and O15: aliases that were never set, or were set on an earlier connection.
my $other = $s->device('d1', client_id => 'o12');
$other->publish('', 'x', alias(3));
is($other->ending, '0x82', 'O12: empty topic with an unknown alias');
$c->reset;
$c = $s->device('d1', client_id => 'c', clean => 0);
$c->publish('', 'x', alias(1));
is($c->ending, '0x82', 'O15: an alias dies with its connection');
# O13, O14: out of the offered range.
for my $bad (0, $max + 1, 65535)
{
    next if $bad > 65535 || ($bad == 65535 && $max == 65535);
    my $d = $s->device('d1', client_id => "bad$bad");
    $d->publish('acme/d1/a', 'x', alias($bad));
    like($d->ending, $bad == 0 ? qr/^0x(94|82)$/ : qr/^0x94$/, "O14: alias $bad");
}
is($s->sql("SELECT count(*) FROM telemetry WHERE payload = 'x'"), '0', 'nothing of those was stored');

# Towards a client that takes aliases: as many as it said, and not one more.
my $takes = $s->device('d1', client_id => 'takes', properties => [ [ 34, 2 ] ]);
$takes->subscribe([ [ 'acme/d1/out/#', 1 ] ], properties => [ [ 11, 5 ] ]);
my $writer = $s->device('d1', client_id => 'writer');
$writer->publish_acked("acme/d1/out/$_", 'y') for qw(a b c a b c a);
my @sent = $takes->messages(7);
is(join(' ', map { ($_->{topic} =~ s/.*\///r) . ':' . (FleetlogTest::Mqtt::property($_, 35) // '') } @sent), 'a:1 b:2 c: :1 :2 c: :1',
    'the first topics get an alias, which then stands for them');
is(scalar(grep { FleetlogTest::Mqtt::property($_, 11) != 5 } @sent), 0, 'beside the other properties');
# What fits without an alias only goes without; it must not count as told.
my $tight = $s->device('d1', client_id => 'tight', properties => [ [ 34, 1 ], [ 39, 60 ] ]);
$tight->subscribe([ 'acme/d1/tight' ]);
my $fill = 60 - length $tight->publish_packet('acme/d1/tight', '');
$writer->publish_acked('acme/d1/tight', $_) for 'x' x $fill, 'x' x ($fill + 1), 'short', 'again', 'x' x ($fill + 1);
is(join(' ', map { length($_->{topic}) . ':' . (FleetlogTest::Mqtt::property($_, 35) // '') . ':' . length $_->{payload} } $tight->messages(4)),
    "13::$fill 13:1:5 0:1:5 0:1:" . ($fill + 1), 'the largest packet that is allowed, with and without an alias');
ok($tight->quiet(0.3), 'and nothing larger');
ok(!defined FleetlogTest::Mqtt::property($_, 35), 'no alias for who takes none') for ($listener->messages(7))[6];

# An alias on a topic that is not allowed must not open it.
$other = $s->device('d1', client_id => 'sly');
is($other->publish_acked('acme/d2/a', 'x', alias(1)), 0x87, 'a foreign topic is refused');
my $pid = $other->publish('', 'x', alias(1), qos => 1);
my $p = $other->read_packet;
ok(ref $p && $p->{reason} >= 0x80, 'and so is its alias');
is($s->sql("SELECT count(*) FROM telemetry WHERE key LIKE 'acme/d2/%'"), '0', 'nothing of that was stored either');
is($s->crashes, '', 'no crash');
$s->node->stop;
done_testing();
