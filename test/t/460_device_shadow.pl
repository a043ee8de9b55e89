# R3: device shadows by their topics and by SQL: merge at every depth, null removes, versions and 409, delta, documents,
# named shadows, client tokens; a device has its own only, also where another tenant has a device of the same id; a request
# is served once, also across a crash.
use strict;
use warnings;
use Test::More;
use JSON::PP;
use FleetlogTest;

my $s = FleetlogTest->new('shadow');
$s->fleet;
$s->sql("SELECT fleetlog.create_tenant('beta', 'beta/'), fleetlog.create_device('d1', 'beta', password => 'pw-d1')");
$s->sql('SELECT fleetlog.enable_shadows()');
is($s->sql('SELECT count(*) FROM fleetlog.stream'), 2, 'enabling shadows makes their stream');
is($s->sql('SELECT fleetlog.enable_shadows()'), 'fleetlog.shadow_log', 'once');

my $base = '$fleetlog/things/d1/shadow';
my $json = JSON::PP->new->canonical;
my $d1 = $s->device('d1');
is(join(',', $d1->subscribe([ [ "$base/#", 1 ] ])), '1', 'a device subscribes to its own shadow');
is(join(',', $d1->subscribe([ [ '$fleetlog/things/d2/shadow/#', 1 ], [ '$fleetlog/things/+/shadow/#', 1 ], [ '$fleetlog/#', 1 ] ])), '135,135,135', "and to no other's");
is($d1->publish_acked('$fleetlog/things/d2/shadow/update', '{}'), 0x87, 'nor may it publish there');
is($d1->publish_acked("$base/update/accepted", '{}'), 0x87, 'nor answers of its own');

# Sends a request and returns its answers by their topic's end, until the last one that is expected.
sub ask
{
    my ($c, $what, $body, $last, $name) = @_;
    my $topic = '$fleetlog/things/d1/shadow' . (defined $name ? "/name/$name" : '');
    my %got;
    $c->publish("$topic/$what", ref $body ? $json->encode($body) : $body, qos => 1);
    while (!$got{$last})
    {
        my $p = $c->read_packet;
        die "no $last" unless ref $p;
        next if $p->{name} eq 'PUBACK';
        $c->puback($p->{pid}) if $p->{qos};
        (my $end = $p->{topic}) =~ s/^\Q$topic\E//;
        $got{$end} = $p->{payload} eq '' ? {} : eval { $json->decode($p->{payload}) } // { raw => $p->{payload} };
    }
    return \%got;
}

is(ask($d1, 'get', '', '/get/rejected')->{'/get/rejected'}{code}, 404, 'get before there is one: 404');
my $a = ask($d1, 'update', { state => { reported => { temp => 20, net => { ssid => 'x', rssi => -60 } } }, clientToken => 't1' }, '/update/documents');
is($a->{'/update/accepted'}{version}, 1, 'the first update makes version 1');
is($a->{'/update/accepted'}{clientToken}, 't1', 'the client token comes back');
is($json->encode($a->{'/update/accepted'}{state}), '{"reported":{"net":{"rssi":-60,"ssid":"x"},"temp":20}}', 'accepted repeats what was sent');
like($a->{'/update/accepted'}{metadata}{reported}{net}{ssid}{timestamp}, qr/^\d{10}$/, 'with metadata to every leaf');
is($a->{'/update/documents'}{previous}, undef, 'documents: there was none before');
ok(!$a->{'/update/delta'}, 'no delta where nothing is desired');

# Desired by SQL: the device is told the delta.
my $delta;
is($s->sql(q{SELECT fleetlog.set_desired('acme/d1', '{"temp": 22, "net": {"ssid": "y"}, "lamp": {"on": true}}')}), 2, 'set_desired returns the version');
my $told = 0;
while (!$told)
{
    my $p = $d1->read_packet;
    die 'nothing was told' unless ref $p;
    $d1->puback($p->{pid}) if $p->{qos};
    $delta = $json->decode($p->{payload}) if $p->{topic} eq "$base/update/delta";
    $told = 1 if $p->{topic} eq "$base/update/documents";
}
is($json->encode($delta->{state}), '{"lamp":{"on":true},"net":{"ssid":"y"},"temp":22}', 'the device is told what differs');
ok($delta->{version} == 2 && $delta->{metadata}{lamp}{on}{timestamp}, 'with version and metadata');

$a = ask($d1, 'update', { state => { reported => { temp => 22, net => { ssid => 'y', rssi => undef } } } }, '/update/documents');
is($json->encode($a->{'/update/delta'}{state}), '{"lamp":{"on":true}}', 'what is reported goes out of the delta');
is($json->encode($a->{'/update/documents'}{current}{state}{reported}), '{"net":{"ssid":"y"},"temp":22}', 'deep merge; null removes');
$a = ask($d1, 'get', { clientToken => 'g' }, '/get/accepted')->{'/get/accepted'};
is($json->encode($a->{state}), '{"delta":{"lamp":{"on":true}},"desired":{"lamp":{"on":true},"net":{"ssid":"y"},"temp":22},"reported":{"net":{"ssid":"y"},"temp":22}}', 'get has all three');
is("$a->{version} $a->{clientToken}", '3 g', 'with version and token');
is($s->sql(q{SELECT fleetlog.device_shadow('acme/d1') #>> '{state,delta}'}), '{"lamp": {"on": true}}', 'and SQL has the same');

# Versions.
$a = ask($d1, 'update', { state => { reported => { temp => 1 } }, version => 2, clientToken => 'old' }, '/update/rejected')->{'/update/rejected'};
is("$a->{code} $a->{clientToken}", '409 old', 'a stale version is rejected with 409');
is(ask($d1, 'update', { state => { reported => { temp => 23 } }, version => 3 }, '/update/accepted')->{'/update/accepted'}{version}, 4, 'the right one is taken');
like($s->sql_error(q{SELECT fleetlog.set_desired('acme/d1', '{"temp": 5}', expected_version => 3)}), qr/LF301.*shadow version is 4, not 3/, 'LF301 in SQL');
is($s->sql(q{SELECT fleetlog.set_desired('acme/d1', '{"temp": 23, "lamp": null}', expected_version => 4)}), 5, 'SQL with the right version');
is($s->sql(q{SELECT fleetlog.device_shadow('acme/d1') #> '{state,delta}'}), '', 'no delta is left');

# What is wrong with a request.
my %wrong = (
    'no JSON' => [ '{', 400 ], 'no object' => [ '[1]', 400 ], 'no state' => [ '{}', 400 ], 'unknown section' => [ '{"state":{"wished":{}}}', 400 ],
    'section no object' => [ '{"state":{"desired":1}}', 400 ], 'version no number' => [ '{"state":{"desired":{"a":1}},"version":"x"}', 400 ],
    'too deep' => [ '{"state":{"desired":' . '{"a":' x 9 . '1' . '}' x 9 . '}}', 400 ], 'too large' => [ '{"state":{"desired":{"a":"' . 'x' x 70000 . '"}}}', 413 ]);
for my $name (sort keys %wrong)
{
    is(ask($d1, 'update', $wrong{$name}[0], '/update/rejected')->{'/update/rejected'}{code}, $wrong{$name}[1], "$name: $wrong{$name}[1]");
}
is($s->sql(q{SELECT fleetlog.device_shadow('acme/d1') ->> 'version'}), 5, 'none of them changed anything');

# Somebody holds the row: 503, not a queue.
my $holder = $s->session;
$holder->query(q{BEGIN; SELECT fleetlog.set_desired('acme/d1', '{"held": 1}')});
is(ask($d1, 'update', { state => { reported => { temp => 0 } } }, '/update/rejected')->{'/update/rejected'}{code}, 503, 'a shadow that a transaction holds: 503');
$holder->query('ROLLBACK');

# Named shadows are apart; delete; the version goes on counting.
is(ask($d1, 'update', { state => { desired => { v => 1 } } }, '/update/delta', 'config')->{'/update/delta'}{version}, 1, 'a named shadow counts for itself');
is($s->sql(q{SELECT fleetlog.set_desired('acme/d1', '{"v": 2}', name => 'config')}), 2, 'also by SQL');
is($s->sql('SELECT count(*) FROM fleetlog.shadow'), 2, 'both are in the view');
is(ask($d1, 'delete', '', '/delete/accepted')->{'/delete/accepted'}{version}, 5, 'delete tells the version that was');
is($s->sql(q{SELECT fleetlog.device_shadow('acme/d1') IS NULL}), 't', 'it is gone');
is(ask($d1, 'delete', '', '/delete/rejected')->{'/delete/rejected'}{code}, 404, 'once only');
is(ask($d1, 'update', { state => { reported => { a => 1 } } }, '/update/accepted')->{'/update/accepted'}{version}, 7, 'a new one does not begin at 1 again');

# Another tenant's device of the same id sees and changes nothing of this one.
my $other = $s->device('d1', client_id => 'other', user => 'beta/d1');
$other->subscribe([ [ "$base/#", 1 ] ]);
is(ask($other, 'get', '', '/get/rejected')->{'/get/rejected'}{code}, 404, "another tenant's device has no shadow yet");
ask($d1, 'update', { state => { reported => { secret => 1 } } }, '/update/documents');
my $mine = ask($other, 'update', { state => { reported => { mine => 1 } } }, '/update/documents');
is(join(' ', sort keys %$mine), '/update /update/accepted /update/documents', 'and is told only what is its own');
is($json->encode($mine->{'/update/documents'}{current}{state}), '{"reported":{"mine":1}}', 'with its own content');
is($s->sql(q{SELECT fleetlog.device_shadow('acme/d1') #>> '{state,reported}'}), '{"a": 1, "secret": 1}', 'the first one is as it was');

# Exactly once: what was acknowledged before a crash is served after it, and not twice.
my $version = $s->sql(q{SELECT fleetlog.device_shadow('acme/d1') ->> 'version'});
my $p2 = $s->device('d1', client_id => 'counter');
$p2->publish_acked("$base/update", $json->encode({ state => { reported => { n => $_ } } })) for 1 .. 20;
$s->kill9_and_start;
$s->wait_for(qq{SELECT (fleetlog.device_shadow('acme/d1') ->> 'version')::int = $version + 20});
is($s->sql(q{SELECT fleetlog.device_shadow('acme/d1') #>> '{state,reported,n}'}), 20, '20 updates, 20 versions, in order');

done_testing();
