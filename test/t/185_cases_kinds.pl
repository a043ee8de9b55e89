# M1, M10: what is of a kind with public cases and was seen in other reports: topics of very many levels, packets behind
# DISCONNECT, long names, answers to nothing, what of a subscription is kept with a session, identifiers that the server
# assigns, SUBSCRIBE of many filters.
use strict;
use warnings;
use Test::More;
use FleetlogTest;

my $s = FleetlogTest->new('kinds', conf => "fleetlog.allow_anonymous = on\n");
$s->sql("SELECT fleetlog.create_stream('telemetry'), fleetlog.create_state('now')");
$s->sql("SELECT fleetlog.mount('', 'telemetry', state => 'now')");

sub client
{
    my ($id, %opt) = @_;
    my $c = $s->raw(version => $opt{version} // 5);
    my $ack = $c->login(client_id => $id, clean => 1, %opt);
    die "$id: " . (ref $ack ? $ack->{reason} : $ack // 'nothing') unless ref $ack && $ack->{reason} == 0;
    $c->{connack} = $ack;
    return $c;
}
sub kept { my ($id, %opt) = @_; return client($id, clean => 0, properties => [ [ 17, 300 ] ], %opt); }
sub gone { my ($id) = @_; $s->wait_for("SELECT NOT coalesce((SELECT connected FROM fleetlog.stat_session WHERE client_id = '$id'), false) AND NOT EXISTS (SELECT FROM fleetlog.stat_connection WHERE client_id = '$id')", 't', "$id to be gone"); return; }
sub property { return FleetlogTest::Mqtt::property(@_); }
sub answer { my ($c) = @_; my $p = $c->read_packet; return ref $p ? join ':', grep { defined } @{$p}{qw(name pid reason)} : $p // 'nothing'; }
my $pub = client('pub');

# ---- topics of very many levels, everywhere (of a kind with O66) ----

for my $levels (1000, 'max')
{
    # The setting's highest value first: no recursion, no table may care.
    if ($levels eq 'max') { $s->set_conf('fleetlog.max_topic_levels' => 1000); FleetlogTest::wait_until(sub { client('probe')->publish_acked('a' . '/a' x 999, 'x') == 0 }, 'the setting'); }
    my $count = $levels eq 'max' ? 32_000 : 20;
    my $topic = '/' x $count;
    my $c = client('levels');
    my $label = "$count levels";
    is($c->publish_acked($topic, 'x'), 0x90, "$label: PUBLISH is refused");
    is(join(',', $c->subscribe([ $topic, ('+/' x $count) . '#', "\$share/g/$topic" ])), '143,143,143', "$label: filters are refused");
    is(join(',', $c->unsubscribe($topic)), '17', "$label: UNSUBSCRIBE finds none");
    my $w = $s->raw;
    $w->send_raw($w->connect_packet(client_id => 'w', will => { topic => $topic, payload => 'x' }));
    like($w->ending(2), qr/^(?:0x90|0x87|open)$/, "$label: a will");
    $w->reset;
    $c->ping;
}
{
    my $c = client('deep');
    my $deep = join '/', ('1') x 1000;
    is(join(',', $c->subscribe([ [ $deep, 1 ], [ join('/', ('+') x 1000), 1 ], [ join('/', ('1') x 999, '#'), 1 ] ])), '1,1,1', 'filters of a thousand levels');
    is($c->publish_acked($deep, 'deep', retain => 1), 0, 'and a topic');
    is(($c->messages(1))[0]{payload}, 'deep', 'is delivered');
    my $late = client('late');
    $late->subscribe([ [ join('/', ('+') x 999, '#'), 1 ] ]);
    is(($late->messages(1))[0]{retain}, 1, 'and retained');
    is($c->publish_acked($deep, '', retain => 1), 0, 'and cleared');
    is(($c->messages(1))[0]{payload}, '', 'for whoever hears it');
    is(join(',', $c->unsubscribe($deep, join('/', ('+') x 1000))), '0,0', 'and gone');
    $_->disconnect for $c, $late;
}
$s->set_conf();

# ---- behind DISCONNECT nothing counts, nor behind a refusal (of a kind with O04) ----

for my $version (4, 5)
{
    my $c = client('last', version => $version);
    my $publish = $c->publish_packet('behind/disconnect', 'x', qos => 1, pid => 1);
    my $subscribe = FleetlogTest::Mqtt::packet(0x82, "\0\2" . ($version == 5 ? "\0" : '') . FleetlogTest::Mqtt::str('behind/#') . "\1");
    $c->send_raw("\xe0\x00$publish$subscribe\xc0\x00" . $c->connect_packet(client_id => 'last'));
    is($c->ending, 'closed', "version $version: packets behind DISCONNECT are not answered");
    $c = client('last', version => $version);
    $c->send_raw("\x00\x00$publish$subscribe\xc0\x00");
    is($c->ending, $version == 5 ? '0x81' : 'closed', "version $version: nor those behind a malformed one");
    $c = client('last', version => $version);
    $c->send_raw($c->publish_packet('behind/first', 'x', qos => 1, pid => 9) . "\xe0\x00");
    $s->wait_for("SELECT count(*) > 0 FROM telemetry WHERE key = 'behind/first'");
    pass("version $version: what comes before DISCONNECT is stored");
}
is($s->sql("SELECT count(*) FROM telemetry WHERE key = 'behind/disconnect'"), 0, 'nothing of that was stored');

# ---- names of any length ----

for my $version (4, 5)
{
    my %ids = (short => 'x', long => 'c' x 65535, 'of many bytes' => "\xe2\x82\xac" x 20000);
    for my $which (sort keys %ids)
    {
        my $c = $s->raw(version => $version);
        my $ack = $c->login(client_id => $ids{$which}, clean => 0, properties => $version == 5 ? [ [ 17, 60 ] ] : undef);
        my $end = ref $ack ? $ack->{reason} : 'closed';
        like($end, qr/^(?:0|2|133|closed)$/, "version $version: a client id that is $which: $end");
        next unless $end eq '0';
        $c->subscribe([ [ 'long/#', 1 ] ]);
        $pub->publish_acked("long/$which", 'x');
        is(($c->messages(1))[0]{payload}, 'x', "version $version: and is served");
        my $next = $s->raw(version => $version);
        is($next->login(client_id => $ids{$which}, clean => 1)->{reason}, 0, "version $version: and taken over");
        is($c->ending, $version == 5 ? '0x8E' : 'closed', "version $version: by the same one");
        $next->disconnect;
    }
}
for my $version (4, 5)
{
    my %who = ('a long user name' => [ user => 'u' x 65535 ], 'a long password' => [ user => 'u', password => "p\0\xff" x 21845 ], 'both' => [ user => 'u' x 60000, password => 'p' x 60000 ],
        'a name of many bytes' => [ user => "\xe2\x82\xac/" x 16000, password => 'x' ]);
    for my $which (sort keys %who)
    {
        my $ack = $s->raw(version => $version)->login(client_id => 'who', @{ $who{$which} });
        like(ref $ack ? $ack->{reason} : 'closed', $version == 5 ? qr/^(?:0|134|closed)$/ : qr/^(?:0|4|closed)$/, "version $version: $which is nobody's");
    }
}
ok(defined $s->sql('SELECT count(*), max(length(client_id)) FROM fleetlog.stat_connection'), 'views show them');

# ---- answers to nothing (of a kind with O-H) ----

for my $version (4, 5)
{
    my $c = client('nothing', version => $version);
    $c->puback(4711);
    $c->pubcomp(4711);
    $c->send_hex('c000');
    is(answer($c), 'PINGRESP', "version $version: PUBACK and PUBCOMP of nothing are passed over");
    $c->subscribe([ [ 'answers', 2 ] ]);
    $pub->publish_acked('answers', 'one');
    my $p = $c->expect('PUBLISH');
    $c->puback($p->{pid}) for 1 .. 3;
    $c->ping;
    pass("version $version: an acknowledgement three times is one");
    $c->disconnect;
}
# A delivery that its client refuses is over, and its place free.
for my $qos (1, 2)
{
    my $c = client('refuses', properties => [ [ 33, 1 ] ]);
    $c->subscribe([ [ 'refused', $qos ] ]);
    for my $n (1 .. 3)
    {
        $qos == 2 ? $pub->publish_released('refused', $n) : $pub->publish_acked('refused', $n);
        my $p = $c->expect('PUBLISH');
        is($p->{payload}, $n, "QoS $qos: message $n comes though those before were refused");
        $c->answer($qos == 2 ? 0x50 : 0x40, $p->{pid}, 0x97);
    }
    $c->ping;
    $c->disconnect;
}

# ---- what of a subscription is kept with a session (of a kind with O28, O37, O43) ----

my $c = kept('options');
$c->subscribe([ [ 'kept/nl', 1 | 4 ], [ 'kept/rap', 1 | 8 ], [ 'kept/rh', 1 | 0x10 ], [ 'kept/two', 2 ], [ 'end', 1 ] ], properties => [ [ 11, 99 ] ]);
$pub->publish_acked('kept/rh', 'retained', retain => 1);
is(($c->messages(1))[0]{payload}, 'retained', 'a live copy');
for my $how (qw(reconnect restart))
{
    $c->disconnect;
    gone('options');
    if ($how eq 'restart') { $s->node->restart; $s->wait_for_mqtt; $pub = client('pub'); }
    $c = kept('options');
    is($c->{connack}{session_present}, 1, "$how: the session is there");
    $c->publish('kept/nl', 'own', qos => 1, pid => 900);
    is(answer($c), 'PUBACK:900:0', "$how: No Local stays");
    $pub->publish_acked('kept/rap', 'flag', retain => 1);
    my $p = $c->expect('PUBLISH');
    is("$p->{payload} $p->{retain} " . property($p, 11), 'flag 1 99', "$how: Retain As Published and the identifier, too; no retained message came by itself");
    $c->puback($p->{pid});
    $c->subscribe([ [ 'kept/rh', 1 | 0x10 ] ]);
    $pub->publish_released('kept/two', 'exact');
    $p = $c->expect('PUBLISH');
    is("$p->{payload} $p->{qos}", 'exact 2', "$how: the QoS as well; retain handling 1 knows that the subscription was there");
    $c->pubrec($p->{pid});
    $c->expect('PUBREL');
    $c->pubcomp($p->{pid});
    $c->ping;
}
$c->disconnect;

# ---- identifiers that the server assigns (of a kind with O29) ----

$c = kept('');
my $id = property($c->{connack}, 18);
is($c->{connack}{session_present}, 0, 'an assigned identifier is new');
$c->subscribe([ [ 'assigned', 1 ] ]);
$c->disconnect;
gone($id);
$pub->publish_acked('assigned', 'meanwhile');
$c = kept($id);
is($c->{connack}{session_present} . ' ' . ($c->messages(1))[0]{payload}, '1 meanwhile', 'and names a session like any other');
is(property($c->{connack}, 18), undef, 'who gives one is told none');
$c->disconnect;

# ---- SUBSCRIBE of many filters, and of one many times ----

for my $version (4, 5)
{
    $c = client('many', version => $version);
    my @filters = map { [ "many/$version/$_", $_ % 3 ] } 1 .. 500;
    is(join(',', $c->subscribe(\@filters)), join(',', map { $_ % 3 } 1 .. 500), "version $version: 500 filters in one packet have 500 answers, in order");
    is(join(',', $c->subscribe([ [ 'same', 0 ], [ 'same', 2 ], [ 'same', 1 ] ])), '0,2,1', "version $version: one filter three times");
    $pub->publish_acked('same', 'x');
    my ($p) = $c->messages(1);
    is("$p->{payload} $p->{qos}", 'x 1', "version $version: the last one counts");
    my @codes = $c->unsubscribe((map { $_->[0] } @filters), 'same', 'same');
    is(join(',', @codes), $version == 5 ? join(',', (0) x 501, 17) : '', "version $version: UNSUBSCRIBE of all of them");
    $pub->publish_acked("many/$version/7", 'x');
    ok($c->quiet(0.1), "version $version: and none is left");
    $c->disconnect;
}

is($s->crashes, '', 'no crash');
$s->node->stop;
done_testing();
