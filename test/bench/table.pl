#!/usr/bin/perl
# table.pl: turns the JSON objects that fl_load prints into the tables of script/bench, and holds them against the goals.
#
# usage: table.pl run FILE name=value...                    keeps what is true of the whole run, and prints it
#        table.pl head
#        table.pl row SCENARIO PARTY FILE [name=value]...   one line; the pairs are added to the object in FILE
#        table.pl history FILE name=value...                what scenario load-10m found; added and printed likewise
#        table.pl add FILE name=value...                    the pairs are added, and nothing is printed
#        table.pl goals FOLDER                              each goal: reached, not reached, not measured
#        table.pl markdown FOLDER                           the same tables for docs/design/performance.md
#        table.pl cpu PID...                                seconds of CPU of these processes and their descendants
#
# FILE is FOLDER/SCENARIO.PARTY.json, so that goals and ratios find what belongs together; FOLDER/run.json is of the run.

use strict;
use warnings;
use JSON::PP;

my $format = "%-20s %-15s %9s %8s %8s %8s %8s %8s %6s %7s %7s %7s\n";
my @columns = ('scenario', 'server', 'msgs/s', 'p50 ms', 'p99', 'p99.9', 'max', 'us/msg', 'tool', 'xids/s', 'WAL B', 'table B');

sub load
{
	my ($file) = @_;

	open(my $in, '<', $file) or die "$file: $!\n";
	local $/;
	return decode_json(<$in>);
}

sub save
{
	my ($file, $r) = @_;

	open(my $out, '>', $file) or die "$file: $!\n";
	print $out JSON::PP->new->canonical->encode($r), "\n";
	close($out) or die "$file: $!\n";
}

# Adds pairs to an object: numbers as such, nothing where nothing is known.
sub add_pairs
{
	my ($r, @pairs) = @_;

	for my $pair (@pairs)
	{
		my ($name, $value) = split(/=/, $pair, 2);
		$r->{$name} = $value eq '' ? undef : $value =~ /^-?\d+(\.\d*)?(e[-+]?\d+)?$/ ? $value + 0 : $value;
	}
}

# Digits enough to compare, few enough to read.
sub short
{
	my ($value) = @_;

	return '-' unless defined $value;
	return sprintf($value >= 100 ? '%.0f' : $value >= 10 ? '%.1f' : '%.2f', $value);
}

sub thousands
{
	my ($value) = @_;

	return '-' unless defined $value;
	$value = sprintf('%.0f', $value);
	1 while $value =~ s/^(-?\d+)(\d{3})/$1,$2/;
	return $value;
}

# ---- one measurement ----

# With subscribers it is the way to them that counts; and some acknowledgements promise nothing.
sub latency
{
	my ($r) = @_;
	my $latency = $r->{subscribers} > 0 ? $r->{end_to_end_ms} : $r->{ack_ms};

	# What was retained has been under way since it was stored.
	return {} if $r->{received_retained} && !$r->{acked};
	return {} if $r->{no_latency} || $latency->{count} == 0;
	return $latency;
}

# True where what is counted are messages that came to subscribers, not those that were published.
sub is_about_deliveries
{
	return $_[0] =~ /^(fan-(out|in)-qos|retained$)/;
}

sub cells
{
	my ($scenario, $r) = @_;
	my $deliveries = is_about_deliveries($scenario);
	my $per_delivery = $deliveries && $r->{received} > 0 ? ($r->{acked} || 0) / $r->{received} : 1;

	return (thousands($r->{$deliveries ? 'received_rate' : 'rate'}), (map { short(latency($r)->{$_}) } qw(p50 p99 p999 max)),
		short($per_delivery * ($r->{server_us_per_message} // 0) || undef),
		$r->{publish_seconds} > 0 ? sprintf('%.0f%%', 100 * $r->{tool_cpu_seconds} / $r->{publish_seconds}) : '-',
		map { short($r->{$_}) } qw(xids_per_second wal_bytes_per_record table_bytes_per_record));
}

sub is_about_connections
{
	return $_[0] =~ /^(idle|storm)/;
}

sub print_row
{
	my ($scenario, $party, $file, @pairs) = @_;
	my $r = load($file);

	add_pairs($r, @pairs);
	save($file, $r);
	print_connections($scenario, $party, $r) if is_about_connections($scenario) || $scenario eq 'login';
	printf $format, $scenario, $party, cells($scenario, $r) unless is_about_connections($scenario);
	printf "    batches %s/s of %s records; %s\n", short($r->{batches_per_second}), short($r->{records_per_batch}), shares($r)
		if $r->{records_per_batch};
	printf "    all %s messages %.3f s after the connect\n", thousands($r->{received}), $r->{all_received_seconds} if $scenario eq 'retained';
	printf "    PUBACK at %s/s\n", thousands($r->{puback_rate}) if $r->{puback_rate};
	print_trouble($r);
}

# Which process of the server took how much, where it is worth a word.
sub shares
{
	my ($r) = @_;
	my %by_name;

	for my $process (@{$r->{processes}})
	{
		(my $name = $process->{name}) =~ s/^postgres: //;
		$name =~ s/^fleetlog //;
		$name =~ s/ +$//;
		$name = 'postmaster' if $name =~ m{/postgres };
		$by_name{$name} += $process->{us_per_message};
	}
	return 'us/msg: ' . join(', ', map { sprintf('%s %.2f', $_, $by_name{$_}) }
			sort { $by_name{$b} <=> $by_name{$a} } grep { $by_name{$_} >= 0.02 * ($r->{server_us_per_message} || 1) } keys %by_name);
}

# Bytes of memory per connection: when all were there, and at the end.
sub memory_per_connection
{
	my ($r) = @_;
	my @memory = (0, 0, 0);

	for my $process (@{$r->{processes}})
	{
		# Shared memory that a process touches for the first time counts in RSS, but is no cost of a connection.
		$memory[$_] += $process->{anonymous}[$_] for 0 .. 2;
	}
	return map { ($memory[$_] - $memory[0]) / $r->{connections} } 1, 2;
}

sub connects_per_second
{
	my ($r) = @_;

	return $r->{connections} / $r->{connect_seconds};
}

sub print_connections
{
	my ($scenario, $party, $r) = @_;
	my $n = $r->{connections};

	printf "%-20s %-15s %d connections in %.2f s (%.0f/s), CONNACK p50 %s p99 %s ms, %.0f us CPU each, memory %+.0f B each, "
		. "at the end %+.0f B; pings %d, answered %d\n", $scenario, $party, $n, $r->{connect_seconds}, connects_per_second($r),
		short($r->{connack_ms}{p50}), short($r->{connack_ms}{p99}), 1e6 * $r->{connect_cpu_seconds} / $n,
		memory_per_connection($r), $r->{pings}, $r->{pongs};
	printf "%-20s %-15s storm: all back in %s s\n", $scenario, $party, join(', ', map { short($_) } @{$r->{storm_seconds}})
		if @{$r->{storm_seconds}};
}

sub print_trouble
{
	my ($r) = @_;
	my @said = map { "$_ $r->{$_}" }
		grep { $r->{$_} > 0 } qw(refused connect_failed lost subscribe_refused nacked unacked unsent protocol_errors);

	print "    ", join(', ', @said), "\n" if @said;
}

sub keep_history
{
	my ($file, @pairs) = @_;
	my $r = load($file);

	add_pairs($r, @pairs);
	save($file, $r);
	printf "    %s records: %s MB, heap %s MB, %.3f of it\n", thousands($r->{history_records}), short($r->{history_bytes} / 1e6),
		short($r->{heap_bytes} / 1e6), $r->{history_bytes} / $r->{heap_bytes};
	printf "    count(*): %s s, heap %s s; with parallel workers %s s, heap %s s\n",
		map { sprintf('%.3f', $r->{$_}) } qw(count_seconds heap_count_seconds parallel_count_seconds parallel_heap_count_seconds);
	print "    batches by records: $r->{batches}\n";
}

# ---- the whole run ----

sub keep_run
{
	my ($file, @pairs) = @_;
	# All as text: a commit may look like a number.
	my $r = { map { my ($name, $value) = split(/=/, $_, 2); ($name => $value eq '' ? undef : $value) } @pairs };

	save($file, $r);
	print "$_\n" for run_lines($r);
}

sub run_lines
{
	my ($r) = @_;

	return ("$r->{command}, $r->{date}, commit $r->{commit}", "$r->{machine}, load $r->{load}; $r->{versions}",
		"$r->{workers} front doors, $r->{shards} shards; fdatasync of 8 kB (pg_test_fsync): "
			. (defined $r->{fdatasync_us} ? "$r->{fdatasync_us} us" : 'not measured'));
}

# The figures of a folder: scenario -> party -> object.
sub read_folder
{
	my ($folder) = @_;
	my %all;

	for my $file (glob("$folder/*.*.json"))
	{
		my ($scenario, $party) = $file =~ m{([^/.]+)\.([^/.]+)\.json$} or next;
		$all{$scenario}{$party} = load($file);
	}
	return \%all;
}

# Each goal: what, what is wanted, what was measured, whether that is it (undef: not measured), and another verdict where
# there is one.
sub goals
{
	my ($all, $run) = @_;
	my @goals;

	my $figure = sub {
		my ($scenario, $party, @path) = @_;
		my $r = $all->{$scenario}{$party};
		$r = $r->{$_} for grep { defined $r } @path;
		return $r;
	};
	my $at_most = sub {
		my ($what, $limit, $value, $unit) = @_;
		push @goals, [$what, 'at most ' . short($limit) . $unit, defined $value ? short($value) . $unit : undef,
			defined $value ? $value <= $limit : undef];
	};
	my $ratio = sub {
		my ($what, $factor, $ours, $theirs, $beside) = @_;
		my $known = defined $ours && $theirs;
		push @goals, [$what, "at least $factor",
			$known ? sprintf('%.2f (%s against %s)%s', $ours / $theirs, thousands($ours), thousands($theirs), $beside // '') : undef,
			$known ? $ours / $theirs >= $factor : undef];
	};

	$ratio->('QoS 1, 50 x 20: times Mosquitto', 3, map { $figure->('qos1-50x20', $_, 'rate') } qw(fleetlog mosquitto));
	$ratio->("QoS 1, 50 x 20: times the bridge with $_->[1] rows a commit", 6, $figure->('qos1-50x20', 'fleetlog', 'rate'),
		$figure->('qos1-50x20', $_->[0], 'rate')) for ['bridge', 100], ['bridge-1000', '1,000'];
	for my $scenario ('qos1-50x1', 'qos1-1x20')
	{
		my $budget = $figure->($scenario, 'fleetlog-budget', 'rate');
		(my $called = $scenario) =~ s/qos1-(\d+)x(\d+)/QoS 1, $1 x $2/;
		my $slow = $run->{fdatasync_us} && $run->{fdatasync_us} > 200 ? '; asked only where a flush takes at most 200 us' : '';
		$ratio->("$called: times Mosquitto", 1.5, $figure->($scenario, 'fleetlog', 'rate'), $figure->($scenario, 'mosquitto', 'rate'),
			(defined $budget ? '; default budget ' . thousands($budget) : '') . $slow);
		$goals[-1][4] = 'not asked' if $slow && defined $goals[-1][3] && !$goals[-1][3];
	}
	$ratio->('QoS 2, 50 x 20: times Mosquitto', 3, map { $figure->('qos2-50x20', $_, 'rate') } qw(fleetlog mosquitto));
	for my $case (['fan-out-qos0', 'deliveries at QoS 0, 1 to 100', 1, 'nats', 'NATS'], ['fan-out-qos1', 'deliveries at QoS 1, 1 to 100', 2, 'nats', 'NATS'],
		['fan-in-qos1', 'deliveries at QoS 1, 100 to 1', 3, 'nats', 'NATS'], ['fan-in-qos1', 'deliveries at QoS 1, 100 to 1', 3, 'mosquitto', 'Mosquitto'])
	{
		my ($scenario, $called, $factor, $party, $name) = @$case;
		$ratio->("$called: times $name", $factor, map { $figure->($scenario, $_, 'received_rate') } 'fleetlog', $party);
	}
	# Mosquitto's time counts only where all of them came; by default it queues no more than a thousand.
	my $stored = $figure->('retained-store', 'mosquitto', 'acked');
	my $theirs = $stored && $figure->('retained', 'mosquitto', 'received') >= $stored ? $figure->('retained', 'mosquitto', 'all_received_seconds') : undef;
	$at_most->('all retained messages to one subscriber', $theirs // 1.15, $figure->('retained', 'fleetlog', 'all_received_seconds'), ' s');
	for my $party ('fleetlog', 'mosquitto')
	{
		my @alone = grep { defined } map { $figure->("filters-$_", $party, 'rate') } qw(without again);
		$ratio->("beside 101,000 subscriptions of others, $party: part of the rate without", 0.8, $figure->('filters-with', $party, 'rate'),
			@alone == 2 ? ($alone[0] + $alone[1]) / 2 : undef) if $party eq 'fleetlog' || @alone;
	}
	$ratio->('QoS 0, 50 x 20: times Mosquitto', 2, map { $figure->('qos0-50x20', $_, 'rate') } qw(fleetlog mosquitto));

	for my $case (['fleetlog-budget', 'default budget', 1.5, 4, 10], ['fleetlog', 'budget lifted', 0.5, 2, 10])
	{
		my ($party, $called, @limit) = @$case;
		my $xids = $figure->('paced-5000', $party, 'xids_per_second');
		for my $quantile (['p50', 'p50'], ['p99', 'p99'], ['p999', 'p99.9'])
		{
			$at_most->("5,000/s, $called: $quantile->[1]", shift @limit, $figure->('paced-5000', $party, 'ack_ms', $quantile->[0]), ' ms');
			$goals[-1][2] .= sprintf(' at %s xids/s', short($xids)) if defined $goals[-1][2] && defined $xids;
		}
	}
	$at_most->('1,667/s: WAL per record of 200 bytes', 300, $figure->('paced-1667', 'fleetlog-budget', 'wal_bytes_per_record'), ' B');
	$at_most->('saturation (QoS 1, 50 x 20): WAL per record', 120, $figure->('qos1-50x20', 'fleetlog', 'wal_bytes_per_record'), ' B');

	my $history = $all->{'load-10m'}{fleetlog};
	$history = undef unless defined $history && defined $history->{history_bytes};
	my $records = $history ? thousands($history->{history_records}) . ' records' : 'load-10m';
	$at_most->("$records: part of a heap's size", 0.35, $history ? $history->{history_bytes} / $history->{heap_bytes} : undef, '');
	$at_most->("$records: count(*) without parallel workers, part of a heap's time", 1,
		$history ? $history->{count_seconds} / $history->{heap_count_seconds} : undef, '');
	$at_most->("$records: count(*) with parallel workers, part of a heap's time", 1,
		$history ? $history->{parallel_count_seconds} / $history->{parallel_heap_count_seconds} : undef, '');
	for my $part (100, 10, 1)
	{
		next if $history && !defined $history->{"seek_pages_$part"};
		$at_most->(($history ? thousands($history->{"seek_records_$part"}) . ' records' : 'load-10m') . ': pages that a seek touches',
			$history ? $history->{"seek_allowed_$part"} : undef, $history ? $history->{"seek_pages_$part"} : undef, '');
	}

	for my $scenario ('idle', 'storm', 'storm-sub', 'idle-tls', 'storm-tls', 'storm-password')
	{
		my ($ours, $theirs) = map { $all->{$scenario}{$_} } qw(fleetlog mosquitto);
		my $called = ($ours ? thousands($ours->{connections}) . ' ' : '') . "connections ($scenario)";
		my @ours = $ours ? memory_per_connection($ours) : ();
		my @theirs = $theirs ? memory_per_connection($theirs) : ();
		my $known = $ours && $theirs;

		push @goals, ["$called: memory each", $theirs ? sprintf("Mosquitto's %.0f B", $theirs[0]) : "Mosquitto's",
			$ours ? sprintf('%.0f B', $ours[0]) : undef, $known ? $ours[0] <= $theirs[0] : undef];
		if ($scenario =~ /^idle/)
		{
			push @goals, ["$called: a second", $theirs ? sprintf("Mosquitto's %s", thousands(connects_per_second($theirs))) : "Mosquitto's",
				$ours ? thousands(connects_per_second($ours)) : undef, $known ? connects_per_second($ours) >= connects_per_second($theirs) : undef];
			next;
		}
		my %limit = (storm => 1.3, 'storm-sub' => 1.9);
		if (my $limit = $ours && $ours->{connections} == 19500 && $limit{$scenario})
		{
			my @seconds = sort { $a <=> $b } @{$ours->{storm_seconds}};
			$at_most->("$called: all are back, the middle one of " . @seconds, $limit, $seconds[$#seconds / 2], ' s');
		}
		if ($scenario eq 'storm-password' && $ours)
		{
			push @goals, ["$called: passwords nobody has seen since the start, then all known", 'stated', sprintf('%.1f s, then %s s', $ours->{connect_seconds},
				join(', ', map { short($_) } @{$ours->{storm_seconds}})) . ($theirs ? sprintf('; Mosquitto %.1f s, then %s s', $theirs->{connect_seconds},
				join(', ', map { short($_) } @{$theirs->{storm_seconds}})) : ''), 1];
		}
		push @goals, ["$called: memory when all are back", 'not above the first time by a tenth',
			$ours ? sprintf('%.0f B, before %.0f B', @ours[1, 0]) : undef, $ours ? $ours[1] <= 1.1 * $ours[0] + 50 : undef];
	}

	# A quantile of others' latency with a disturbance, less the same without it.
	for my $case (['burst', 'a burst of 1 MB delays others: p99', 'p99', 5], ['burst', 'a burst of 1 MB delays others: largest', 'max', 5],
		['silent', 'silent and slow peers delay others: p99', 'p99', 1])
	{
		my ($scenario, $what, $quantile, $limit) = @$case;
		my ($with, $without) = map { $figure->("$scenario-$_", 'fleetlog', 'ack_ms', $quantile) } qw(with without);
		my $known = defined $with && defined $without;
		push @goals, [$what, "by at most $limit ms", $known ? sprintf('%+.2f ms (%s, without %s)', $with - $without, short($with), short($without)) : undef,
			$known ? $with - $without <= $limit : undef];
	}
	# Two pairs in turns; within noise: the worse of the runs with is no worse than the other of those without by a tenth.
	for my $case (['rate', "a part of the publishers' rate without", ['rate'], 1], ['paced', "times others' p99 without", ['end_to_end_ms', 'p99'], -1])
	{
		my ($kind, $what, $path, $sign) = @$case;
		my %seen = map { my $name = $_; ($name => [grep { defined } map { $figure->("deaf-$kind-$name-$_", 'fleetlog', @$path) } 1, 2]) } qw(without with);
		next if grep { @$_ < 2 } values %seen;
		my ($with, $without) = map { ($seen{$_}[0] + $seen{$_}[1]) / 2 } qw(with without);
		my $spread = abs($seen{without}[0] - $seen{without}[1]) / $without;
		my $bound = $sign > 0 ? 1 - 0.1 - $spread : 1 + 0.1 + $spread;
		push @goals, ["beside subscribers that do not read: $what", sprintf('%s %.2f (the runs without differ by %.2f)', $sign > 0 ? 'at least' : 'at most', $bound, $spread),
			sprintf('%.2f (%s against %s)', $with / $without, short($with), short($without)), $sign > 0 ? $with / $without >= $bound : $with / $without <= $bound];
	}
	for my $case (['snapshot', 'held', 'a snapshot'], ['snapshot', 'writer', 'an unrelated transaction'],
		['snapshot-qos2', 'held', 'QoS 2, a snapshot'], ['snapshot-qos2', 'writer', 'QoS 2, an unrelated transaction'])
	{
		my ($name, $holder, $what) = @$case;
		my $held = $all->{"$name-$holder"};
		my @without = grep { defined } map { $figure->("$name-$_", 'fleetlog', 'rate') } qw(without again);
		# A machine of the cloud is not the one that it was ten minutes ago: then only the run after it is comparable.
		@without = (@without[1, 1]) if $all->{"$name-meanwhile"}{fleetlog} && @without == 2;
		$ratio->("$what open" . ($held ? sprintf(' for %.0f s', $held->{fleetlog}{publish_seconds}) : '') . ': part of the rate without',
			0.8, $figure->("$name-$holder", 'fleetlog', 'rate'), @without == 2 ? ($without[0] + $without[1]) / 2 : undef);
	}
	for my $size (100, 1024)
	{
		my $kafka = sub { my ($part, $party) = @_; return $figure->("kafka-$size-$part", $party, 'rate'); };

		$ratio->("Kafka's protocol, $size bytes: fetch, times Kafka", 1, $kafka->('fetch', 'fleetlog'), $kafka->('fetch', 'kafka'));
		$ratio->("Kafka's protocol, $size bytes: produce, times Kafka that flushes", 1, $kafka->('produce', 'fleetlog'), $kafka->('produce', 'kafka-flush'));
		my $unbatched = $kafka->('unbatched', 'fleetlog');
		push @goals, ["Kafka's protocol, $size bytes: one record a request, eight producers", 'at least 5,000/s',
			defined $unbatched ? thousands($unbatched) . '/s' : undef, defined $unbatched ? $unbatched >= 5000 : undef];
		my ($ours, $theirs) = map { $figure->("kafka-$size-latency", $_, 'ack_ms', 'p99') } 'fleetlog', 'kafka-flush';
		$at_most->("Kafka's protocol, $size bytes: from end to end, p99, against Kafka that flushes", $theirs, $ours, ' ms') if defined $theirs;
	}
	for my $case (['herd', 'within ten seconds'], ['herd-at-once', 'at once'])
	{
		my ($scenario, $how) = @$case;
		my $r = $all->{$scenario}{fleetlog};
		my $herd = 'a herd ' . ($r ? sprintf('of %s that wants %s of %s records, ', map { thousands($_) } @$r{qw(connections received herd_records)}) : '') . $how;

		$at_most->("$herd: pages read, times the history's", 2, $r ? $r->{herd_pages_read} / $r->{herd_pages} : undef, '');
		$at_most->("$herd: until all have theirs", 10, $r ? $r->{all_received_seconds} : undef, ' s') if $scenario eq 'herd-at-once';
	}
	$at_most->('a slow disk: what front doors fetch from it, part of what the reader does', 0.05,
		$all->{cold}{fleetlog} ? $all->{cold}{fleetlog}{cold_doors_fetched} / ($all->{cold}{fleetlog}{cold_reader_fetched} || 1) : undef, '');
	# Noise: half a millisecond, or a tenth, above the worse of the same measurement before and after.
	for my $case (['herd', 'a herd within ten seconds'], ['herd-at-once', 'a herd at once'], ['cold', 'a slow disk'])
	{
		my ($scenario, $what) = @$case;

		for my $way (['ack_ms', 'PUBACK'], ['end_to_end_ms', 'delivery'])
		{
			my ($with, @without) = map { $figure->("$scenario-$_", 'fleetlog', $way->[0], 'p99') } qw(with without again);
			my $known = defined $with && defined $without[0] && defined $without[1];
			my ($high) = $known ? sort { $b <=> $a } @without : 0;
			my $limit = $high > 5 ? $high / 10 : 0.5;

			push @goals, ["$what delays live traffic: p99 of $way->[1]", 'by at most ' . short($limit) . ' ms',
				$known ? sprintf('%+.2f ms (%s, without %s and %s)', $with - $high, map { short($_) } $with, @without) : undef,
				$known ? $with - $high <= $limit : undef];
		}
	}
	return @goals;
}

sub verdict
{
	my ($goal) = @_;

	return $goal->[4] if defined $goal->[4];
	return !defined $goal->[3] ? 'not measured' : $goal->[3] ? 'reached' : 'NOT REACHED';
}

sub print_goals
{
	my ($folder) = @_;

	my @goals = goals(read_folder($folder), load("$folder/run.json"));
	my @unknown = map { $_->[0] } grep { !defined $_->[3] } @goals;

	print "Goals\n";
	printf "  %-11s  %s: %s; wanted %s\n", verdict($_), @$_[0, 2, 1] for grep { defined $_->[3] } @goals;
	print "  not measured in this run: ", join('; ', @unknown), "\n" if @unknown;
}

sub markdown_table
{
	my ($head, @rows) = @_;

	print '| ', join(' | ', @$head), " |\n", '|', '---|' x @$head, "\n";
	print '| ', join(' | ', @$_), " |\n" for @rows;
	print "\n";
}

# Scenarios as script/bench lists them, parties as it runs them.
sub ordered
{
	my ($names, @order) = @_;
	my %place = map { $order[$_] => $_ } 0 .. $#order;

	return sort { ($place{$a} // 99) <=> ($place{$b} // 99) || $a cmp $b } @$names;
}

sub print_markdown
{
	my ($folder) = @_;
	my $all = read_folder($folder);
	my $run = load("$folder/run.json");
	my @scenarios = ordered([keys %$all], qw(qos1-50x20 qos1-50x1 qos1-1x20 qos0-50x20 qos2-50x20 paced-5000 paced-1667
		fan-out fan-out-qos0 fan-out-qos1 fan-in-qos1 retained-store retained filters-without filters-with filters-again login
		load-10m burst-without burst-with silent-without silent-with),
		(map { my $kind = $_; map { my $pair = $_; map { "deaf-$kind-$_-$pair" } qw(without with) } 1, 2 } qw(rate paced)),
		(map { my $name = $_; map { "$name-$_" } qw(without with again control) } qw(herd herd-at-once cold)),
		(map { my $name = $_; map { "$name-$_" } qw(without meanwhile held writer again) } qw(snapshot snapshot-qos2)),
		(map { my $size = $_; map { "kafka-$size-$_" } qw(produce fetch unbatched latency) } 100, 1024));
	my (@rates, @crowds);

	for my $scenario (@scenarios)
	{
		for my $party (ordered([keys %{$all->{$scenario}}], qw(null fleetlog fleetlog-budget mosquitto nats bridge bridge-1000)))
		{
			my $r = $all->{$scenario}{$party};
			push @rates, [$scenario, $party, cells($scenario, $r)] unless is_about_connections($scenario) || $scenario =~ /^(herd|herd-at-once|cold)$/;
			push @crowds, [$scenario, $party, thousands($r->{connections}), thousands(connects_per_second($r)),
				(map { sprintf('%.0f', $_) } 1e6 * $r->{connect_cpu_seconds} / $r->{connections}, memory_per_connection($r)),
				join(', ', map { short($_) } @{$r->{storm_seconds}}) || '-'] if is_about_connections($scenario);
		}
	}
	print "\n", map { "$_  \n" } run_lines($run);
	print "\n";
	markdown_table(\@columns, @rates) if @rates;
	markdown_table(['scenario', 'server', 'connections', 'connects/s', 'us CPU each', 'B each', 'B at the end', 'all back, s'], @crowds) if @crowds;
	if (my $h = $all->{'load-10m'}{fleetlog})
	{
		markdown_table([thousands($h->{history_records}) . ' readings', 'stream', 'heap'],
			['MB', short($h->{history_bytes} / 1e6), short($h->{heap_bytes} / 1e6)],
			['count(*), s', map { sprintf('%.3f', $h->{$_}) } qw(count_seconds heap_count_seconds)],
			['count(*) with parallel workers, s', map { sprintf('%.3f', $h->{$_}) } qw(parallel_count_seconds parallel_heap_count_seconds)])
			if defined $h->{history_bytes};
		print "Batches by number of records: $h->{batches}\n\n" if defined $h->{batches};
	}
	markdown_table(['goal', 'wanted', 'measured', ''], map { [$_->[0], $_->[1], $_->[2] // '-', verdict($_)] } goals($all, $run));
}

# ---- CPU ----

sub print_cpu
{
	my %wanted = map { $_ => 1 } @_;
	my (%parent, %ticks);

	for my $file (glob('/proc/[0-9]*/stat'))
	{
		open(my $in, '<', $file) or next;
		my $line = <$in> // next;
		my ($pid) = $line =~ /^(\d+)/;
		my @rest = split(' ', $line =~ s/.*\) //r);
		($parent{$pid}, $ticks{$pid}) = ($rest[1], $rest[11] + $rest[12]);
	}
	my $more = 1;
	while ($more)
	{
		my @found = grep { !$wanted{$_} && $wanted{$parent{$_}} } keys %parent;
		$wanted{$_} = 1 for @found;
		$more = @found;
	}
	my $sum = 0;
	$sum += $ticks{$_} // 0 for keys %wanted;
	print $sum / 100, "\n";
}

my $what = shift(@ARGV) // '';
if ($what eq 'run') { keep_run(@ARGV) }
elsif ($what eq 'head') { printf $format, @columns }
elsif ($what eq 'row') { print_row(@ARGV) }
elsif ($what eq 'history') { keep_history(@ARGV) }
elsif ($what eq 'add') { my ($file, @pairs) = @ARGV; my $r = load($file); add_pairs($r, @pairs); save($file, $r) }
elsif ($what eq 'goals') { print_goals(@ARGV) }
elsif ($what eq 'markdown') { print_markdown(@ARGV) }
elsif ($what eq 'cpu') { print_cpu(@ARGV) }
else { die "usage: table.pl run|head|row|history|goals|markdown|cpu ...\n" }
